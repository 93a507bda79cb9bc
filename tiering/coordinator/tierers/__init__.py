"""Requests of tierers: heartbeats, commits, leases."""
