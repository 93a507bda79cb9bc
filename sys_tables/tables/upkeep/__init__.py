"""How good lake tables are to read."""
