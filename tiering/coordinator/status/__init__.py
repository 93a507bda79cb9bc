"""The contents of system tables about tiering: cells, columns and views, of a running coordinator or of its data folder."""
