"""Rewrites files of an Iceberg table, so that it stays as fast to read as a compacted table."""
