"""Reads Iceberg tables: views, surveys, file lists, and the stored files."""
