"""Procedures about the freshness of lake tables: setting it, and tiering or waiting for it."""
