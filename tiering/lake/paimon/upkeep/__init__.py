"""Rewrites the data files of Paimon tables to fewer files with the same rows."""
