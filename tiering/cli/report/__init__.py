"""One self-contained HTML page about a table: `lakeward report`."""
