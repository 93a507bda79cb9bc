"""Background observation: which tables exist, how far their lakes lag, and how large and healthy their lake tables are."""
