"""SQL with nothing running: statements in Spark's dialect on DuckDB, over a coordinator's folder and the lake (`engine`)."""
