"""sqllogictest: files of queries with their answers, and drawn queries, run on Spark and DuckDB."""
