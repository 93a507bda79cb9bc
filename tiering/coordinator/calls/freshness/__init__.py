"""Procedures about how fresh lake tables are: the promise itself, and bringing or awaiting what keeps it."""
