"""The embedded cluster's log: which bucket a row goes to, segment files, reading and retention."""
