"""The store's database: its location, the upgrade of its tables, and which coordinator leads."""
