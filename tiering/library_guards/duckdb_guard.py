"""What a DuckDB connection may do: read the files that it is for, and nothing else. DuckDB's own SQL can read and write any file,
fetch and load extensions, and look at Python's variables; whatever text, name or value of a user's reaches it could ask for that.
"""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

_OFF = (
    "python_enable_replacements",  # names are of tables, never of Python's variables
    "autoinstall_known_extensions",
    "autoload_known_extensions",
    "allow_persistent_secrets",
)
_LOCK = ";".join([*(f"SET {name} = false" for name in _OFF), "SET enable_external_access = false", "SET lock_configuration = true"])
"""In one call: a writer of a primary-key table opens a connection a bucket."""


def lock(connection: duckdb.DuckDBPyConnection, files: Iterable[str] = ()) -> None:
    """Limits `connection` to opening `files`, its own database and its temporary folder; it loads nothing and takes no setting any more.

    Everything else has to be set before. Files are compared by the path that a statement names; a pattern in one matches nothing.
    """
    if paths := sorted(set(files)):
        connection.execute("SET allowed_paths = $files", {"files": paths}).fetchall()
    connection.execute(_LOCK).fetchall()


def duckdb_reason(error: duckdb.Error) -> str:
    """Returns what DuckDB says, without the place in the SQL, which no user has written, and without the stack of its own C++ code."""
    reason = str(error)
    for end in ("\n\nStack Trace:", "\n\nLINE "):
        reason = reason.split(end, 1)[0]
    if isinstance(error, duckdb.InternalException):
        reason = reason.rsplit(" Error: ", 1)[-1]
    return reason.strip()
