"""Reading a Paimon table's metadata."""
