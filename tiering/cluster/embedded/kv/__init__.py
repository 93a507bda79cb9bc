"""Primary-key tables of the embedded cluster: the KV state, which is built from the log, and its snapshots."""
