"""The columns of a lake table, for the lakes of all formats."""
