"""KV snapshots of a Fluss cluster: their list, their RocksDB files, and the rows in them."""
