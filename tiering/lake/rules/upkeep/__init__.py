"""Rules of upkeep: which snapshots expire, and which files that leaves."""
