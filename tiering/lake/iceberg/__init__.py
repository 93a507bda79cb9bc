"""Iceberg through pyiceberg: `lake` is the driver side, `factory` what travels to executors, `writer` and `committer` the work."""
