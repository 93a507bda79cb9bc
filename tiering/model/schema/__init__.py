"""The columns of a table through all their changes: ids of fields, changes, and rows of former columns."""
