"""Rows in the formats of Fluss's own, in which KV snapshots, and the logs of some tables, have them."""
