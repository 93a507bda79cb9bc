"""An Apache Fluss cluster as the source of rows."""
