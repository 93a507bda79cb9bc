"""Writes to a Fluss cluster: `writer` is the WritableCluster, and `native_client` runs pyfluss for it."""
