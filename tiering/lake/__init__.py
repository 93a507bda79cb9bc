"""Where data goes: the interface (`base`), the marker and its rules, and Iceberg. Paimon comes beside it."""
