"""The database of the store: where it is, how its tables are brought up to date, and which coordinator leads."""
