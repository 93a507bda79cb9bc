"""Trino's server, which only `support.readers.page trino` starts, and the pinned packages of its Python client."""
