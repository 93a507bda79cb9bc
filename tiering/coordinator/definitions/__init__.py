"""Statements of SQL that define databases and tables: `statements` reads them, `definer` applies them."""
