"""Looking at Iceberg tables: views, surveys, file lists, and the files that are stored."""
