"""Repair of lake tables: inspection of failed tables, `reconcile_lake`, and sweeps that delete left-over files."""
