"""Decodes rows in Fluss's own formats, which KV snapshots, and the logs of some tables, use."""
