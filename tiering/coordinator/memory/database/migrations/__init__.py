"""Alembic's script folder for the state store. `upgrades` runs it."""
