"""Procedures that take a table out of an error that no retry helps: what to do with a lake that was changed behind our back."""
