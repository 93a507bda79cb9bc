"""The coordinator's memory: records in memory, always behind the store that holds them."""
