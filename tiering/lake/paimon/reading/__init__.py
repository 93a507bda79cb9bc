"""Reads the metadata of a Paimon table."""
