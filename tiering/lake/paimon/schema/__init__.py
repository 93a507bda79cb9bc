"""The columns of a Paimon table: made, compared, extended."""
