"""What stands between us and libraries that can crash, hang or be misused: Arrow, DuckDB, SQL drivers, pyiceberg-core."""
