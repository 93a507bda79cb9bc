"""The embedded cluster: one folder of log tables, for the first five minutes, for tests and for fault injection (DESIGN 9)."""
