"""Rewriting files of an Iceberg table so that it stays as good to read as a table that was compacted."""
