"""Checks of a primary-key table."""
