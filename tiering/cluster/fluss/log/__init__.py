"""Reads a Fluss log: FetchLog and remote segments, record batches, the reader of a log split, commit times of offsets."""
