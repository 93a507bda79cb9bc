"""Opening Iceberg catalogs, tables and files: the one way in, and what it may touch."""
