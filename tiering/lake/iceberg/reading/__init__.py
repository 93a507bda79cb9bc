"""Looking at Iceberg tables: the marker's view, surveys, file lists, orphan files."""
