"""What the system tables are made of: cells, columns and reasons, of a running coordinator or of its folder."""
