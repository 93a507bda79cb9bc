"""The requests of tierers: heartbeats, commits, leases."""
