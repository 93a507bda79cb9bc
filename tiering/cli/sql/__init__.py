"""`lakeward sql`: runs statements from the command line, a file, a pipe or a prompt, on Spark or DuckDB."""
