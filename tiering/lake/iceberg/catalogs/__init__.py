"""Opens Iceberg catalogs, tables and files, and limits which files may be opened."""
