"""Procedures about the upkeep of lake tables: rewriting files and manifests, expiring snapshots, deleting orphan files, pausing."""
