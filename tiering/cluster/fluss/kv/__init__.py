"""KV snapshots of a Fluss cluster: which there are, their RocksDB files, and the rows in them."""
