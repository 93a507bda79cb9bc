"""Publishes a round as one snapshot."""
