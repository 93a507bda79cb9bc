"""Writes to a Fluss cluster: `writer` is the WritableCluster, `native_client` runs pyfluss for it, `type_json` describes added columns."""
