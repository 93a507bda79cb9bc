"""Writes a split's rows as files of a Paimon table, on executors. This package never imports pypaimon."""
