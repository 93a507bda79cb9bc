"""The kinds of lake tables, what users do to them by hand, and what mends each."""
