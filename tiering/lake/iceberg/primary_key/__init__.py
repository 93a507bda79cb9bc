"""Primary-key tables in Iceberg: changes are folded per key; rows of the lake die by position, new ones are appended."""
