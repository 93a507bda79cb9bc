"""A Spark standalone cluster of the tests."""
