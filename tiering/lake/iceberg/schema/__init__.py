"""The shape of an Iceberg table: layout, types, partition values, and added columns."""
