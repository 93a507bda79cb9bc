"""Reads a table as a stream: offsets, the limits of batches, and the readers of a batch."""
