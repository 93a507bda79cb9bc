"""Statements that write rows through the service."""
