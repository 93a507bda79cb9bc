"""Procedures about KV snapshots and the leases that keep them alive."""
