"""The service for readers of data tables: the moments of their reads, the tasks of their scans, and what open reads keep."""
