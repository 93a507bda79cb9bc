"""Leases on KV snapshots, and what they keep."""
