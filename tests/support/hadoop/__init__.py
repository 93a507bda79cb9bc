"""Helpers that tests of hadoop catalogs share: an HDFS, and processes that race."""
