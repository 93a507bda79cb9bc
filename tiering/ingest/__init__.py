"""Reads files into tables: CSV, NDJSON and Parquet, parsed to their end before a row is published."""
