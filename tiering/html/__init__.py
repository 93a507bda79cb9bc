"""HTML of elements and of rows, for reports and notebooks."""
