"""Writing a split's rows as files of a Paimon table, on executors. Nothing here imports pypaimon."""
