"""The shape of an Iceberg table: layout, types, partition values, and columns that were added."""
