"""Definitions of system tables and procedures: columns and parameters as dataclass fields, scan requests, SQL types."""
