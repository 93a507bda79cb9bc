"""Lake tables that no round may build on, and files that no round left on purpose: what helps, `reconcile_lake`, `lakeward sweep`."""
