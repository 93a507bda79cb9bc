"""SQLite files of others, opened so that nothing in them is changed or locked for long, and nothing that they say is run."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from tiering.errors import SetupError

if TYPE_CHECKING:
    import sqlalchemy as sa

_RUNS = "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger') OR sql LIKE 'create virtual%' LIMIT 1"


def sqlite_url(database: str, query: Mapping[str, str] | None = None) -> str:
    """SQLAlchemy's URL of a SQLite database: `sqlite:////a/b.db?mode=ro`.

    As `sqlalchemy.URL` renders it, whose import takes half a second: commands that only name a file do without.
    """
    parameters = f"?{urlencode(sorted(query.items()))}" if query else ""
    return f"sqlite:///{quote(database, safe=' +/')}{parameters}"


def read_only_url(file: Path) -> str:
    """SQLAlchemy's URL of a file that may only be read (SQLite, "URI Filenames": `mode=ro`). It fails if there is no such file.

    To read a file with a write-ahead log SQLite wants to make a small file beside it. Where that cannot be, and the log holds
    nothing, nobody can change the file either: it is read without (`immutable`; SQLite, "Read-Only Databases" of WAL mode).
    """
    absolute = file.absolute()
    wal = absolute.with_name(absolute.name + "-wal")
    alone = not os.access(absolute.parent, os.W_OK) and not (wal.exists() and wal.stat().st_size)
    query = {"mode": "ro", "uri": "true"} | ({"immutable": "1"} if alone else {})
    return sqlite_url(f"file:{quote(str(absolute))}", query)  # quoted once for SQLite, and once more for SQLAlchemy


def distrust(engine: sa.Engine) -> None:
    """Makes an engine read a file as one that anybody may have made (SQLite, "Defense Against The Dark Arts"); nothing but for SQLite.

    No database of Lakeward's, and no lake catalog, has views, triggers or virtual tables: their SQL would be run by whoever reads
    a table or writes to one. Raises SetupError for a file that has any, SQLAlchemyError if it cannot be read.
    """
    if engine.dialect.name != "sqlite":
        return
    from sqlalchemy import event

    event.listen(engine, "connect", _distrust_schema)
    with engine.connect() as connection:
        row = connection.exec_driver_sql(_RUNS).first()
    if row is not None:
        engine.dispose()
        raise SetupError(
            f"the database {engine.url.database} holds the {row.type} {str(row.name)[:60]!r}, which no database of Lakeward's has",
            hint="Its SQL would be run by whoever opens it. Where does the file come from?",
        )


def _distrust_schema(connection: sqlite3.Connection, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA trusted_schema=OFF")
    cursor.execute("PRAGMA cell_size_check=ON")
    cursor.close()
