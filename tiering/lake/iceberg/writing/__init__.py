"""Writes a split's rows as data files, on executors."""
