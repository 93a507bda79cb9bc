"""Primary-key tables of the embedded cluster: the KV state that is made from the log, and its snapshots."""
