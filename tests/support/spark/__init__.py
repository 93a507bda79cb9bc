"""Spark as tests run it: a standalone cluster, and JVMs that start quickly."""
