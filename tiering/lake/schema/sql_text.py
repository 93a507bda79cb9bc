"""Quotes names and texts in DuckDB's SQL."""


def quoted(name: str) -> str:
    """Returns a name as a SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: str) -> str:
    """Returns a text as a SQL literal."""
    return "'" + value.replace("'", "''") + "'"
