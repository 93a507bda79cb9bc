"""Files into tables: CSV and NDJSON, parsed as a whole before a row is published."""
