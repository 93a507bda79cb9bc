"""Limits of the lines that refused calls write to the audit and the log."""
