"""What is looked at in the background: which tables there are, how far they lag, how large their lake tables are."""
