"""The `lakeward` command and the composition root: here, and only here, all parts meet."""
