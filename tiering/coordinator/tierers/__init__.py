"""What tierers ask for: tables, commits, leases."""
