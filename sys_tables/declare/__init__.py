"""Definitions of system tables and procedures as SQL sees them, scan requests, and the conversion of rows to Arrow."""
