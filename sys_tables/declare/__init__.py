"""What a system table and a procedure are: columns and parameters as dataclass fields, scan requests, SQL types."""
