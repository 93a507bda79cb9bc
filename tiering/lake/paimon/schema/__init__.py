"""Creates, compares and extends the columns of a Paimon table."""
