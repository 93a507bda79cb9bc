"""Bounds on the lines that calls of refused callers leave in the audit and in the log."""
