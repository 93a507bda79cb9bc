"""The checks of a primary-key table."""
