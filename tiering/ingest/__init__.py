"""Reads CSV, NDJSON and Parquet files into tables. A file is parsed to its end before its first row is written."""
