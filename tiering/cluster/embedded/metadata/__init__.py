"""The embedded cluster's metadata, in one SQLite file."""
