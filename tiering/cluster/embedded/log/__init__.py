"""The embedded cluster's log: the choice of buckets, segment files, reading and retention."""
