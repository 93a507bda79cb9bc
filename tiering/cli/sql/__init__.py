"""`lakeward sql`: statements from the command line, a file, a pipe or a prompt, on an engine of one's choice."""
