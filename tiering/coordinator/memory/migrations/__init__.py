"""Alembic's script folder for the state store. `sql_schema` runs it."""
