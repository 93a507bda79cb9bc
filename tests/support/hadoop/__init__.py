"""What tests of hadoop catalogs share: an HDFS of their own, and processes that race."""
