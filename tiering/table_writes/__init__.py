"""Statements that write rows: what an executor does with the rows of a task."""
