"""Queues: tables that wait for a tierer, and work that waits for the lock."""
