"""Wraps libraries that can crash, hang or be misused: Arrow, DuckDB, SQL drivers, pyiceberg-core."""
