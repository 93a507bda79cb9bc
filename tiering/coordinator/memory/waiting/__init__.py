"""What waits: tables for a tierer, and work for whoever has the lock."""
