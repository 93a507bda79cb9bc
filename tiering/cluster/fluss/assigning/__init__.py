"""Fluss as the scheduler of its tables: the tiering heartbeat."""
