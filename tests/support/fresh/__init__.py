"""Fresh reads in tests: reads that a running service opens, and a writer beside statements."""
