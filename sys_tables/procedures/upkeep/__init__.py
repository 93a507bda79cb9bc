"""Procedures about the upkeep of lake tables. Those that Iceberg has too, have its names and arguments."""
