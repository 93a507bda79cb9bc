"""How the tiering of each table stands: cells, columns and reasons, of a running coordinator or of its data folder."""
