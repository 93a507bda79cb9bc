"""Restricts a DuckDB connection to the files that it needs. DuckDB's own SQL can read and write any file, fetch and load extensions, and
read Python's variables. Any text, name or value of a user that reaches DuckDB could use that."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

_OFF = (
    "python_enable_replacements",  # names mean tables, never Python's variables
    "autoinstall_known_extensions",
    "autoload_known_extensions",
    "allow_persistent_secrets",
)
_LOCK = ";".join([*(f"SET {name} = false" for name in _OFF), "SET enable_external_access = false", "SET lock_configuration = true"])
"""The restrictions as one call: a writer of a primary-key table opens one connection per bucket."""


def lock(connection: duckdb.DuckDBPyConnection, files: Iterable[str] = ()) -> None:
    """Limits `connection` to `files`, its own database and its temporary folder. It then loads nothing and refuses every later setting.

    So all other settings come first. Files are compared by the path that a statement names. A pattern in a path matches nothing.
    """
    if paths := sorted(set(files)):
        connection.execute("SET allowed_paths = $files", {"files": paths}).fetchall()
    connection.execute(_LOCK).fetchall()


def duckdb_reason(error: duckdb.Error) -> str:
    """Returns DuckDB's message without the position in the SQL, which is not the user's SQL, and without the stack of DuckDB's C++ code."""
    reason = str(error)
    for end in ("\n\nStack Trace:", "\n\nLINE "):
        reason = reason.split(end, 1)[0]
    if isinstance(error, duckdb.InternalException):
        reason = reason.rsplit(" Error: ", 1)[-1]
    return reason.strip()
