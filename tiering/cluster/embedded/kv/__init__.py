"""Primary-key tables of the embedded cluster: the KV state that the log makes, and its snapshots."""
