"""What the coordinator remembers: the records in memory, always behind the store that holds them."""
