"""Where a Fluss cluster keeps log segments, KV snapshots and offsets files: how its storage is named, and how a file of it is opened."""
