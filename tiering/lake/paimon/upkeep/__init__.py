"""Rewriting the data files of Paimon tables: fewer files with the same rows."""
