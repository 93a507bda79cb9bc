"""Reads a table as of now: the rows of its lake copy, and the records of the log that the lake does not have yet (Fluss's union read)."""
