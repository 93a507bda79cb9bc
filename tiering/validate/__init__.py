"""The proof that the lake equals the log: DuckDB reads both sides (DESIGN 11)."""
