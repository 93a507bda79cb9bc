"""Answers a scan request over rows: conditions, order, aggregates, Arrow pieces. Resolves the names that a statement uses."""
