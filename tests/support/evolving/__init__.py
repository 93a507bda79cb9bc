"""A deployment whose tables change their columns, and random sequences of changes."""
