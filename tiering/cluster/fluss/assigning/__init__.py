"""Fluss as the scheduler of its tables, through the tiering heartbeat."""
