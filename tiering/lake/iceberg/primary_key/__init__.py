"""Writes primary-key tables in Iceberg: keeps the last change of each key, deletes the lake's rows by position, and appends new rows."""
