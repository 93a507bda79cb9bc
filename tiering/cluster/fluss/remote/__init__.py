"""The storage of a Fluss cluster's log segments, KV snapshots and offsets files: its options, and how its files are opened."""
