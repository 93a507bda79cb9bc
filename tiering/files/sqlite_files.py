"""Opens SQLite files from other programs without changing them, without holding a lock for long, and without running SQL in them."""

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

_FIND_STORED_SQL = "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger') OR sql LIKE 'create virtual%' LIMIT 1"


def sqlite_url(database: str, query: Mapping[str, str] | None = None) -> str:
    """Returns SQLAlchemy's URL of a SQLite database: `sqlite:////a/b.db?mode=ro`.

    The text is the one that `sqlalchemy.URL` renders. Importing that takes half a second, which commands that only name a file avoid.
    """
    parameters = f"?{urlencode(sorted(query.items()))}" if query else ""
    return f"sqlite:///{quote(database, safe=' +/')}{parameters}"


def read_only_url(file: Path) -> str:
    """Returns SQLAlchemy's URL of a file that may only be read (SQLite, "URI Filenames": `mode=ro`). Opening it fails if the file is
    missing.

    To read a file with a write-ahead log, SQLite creates a small file beside it. If it cannot, and the write-ahead log is empty, no process
    can change the file either. Then it is read without the small file (`immutable`; SQLite, "Read-Only Databases" of WAL mode).
    """
    absolute = file.absolute()
    wal = absolute.with_name(absolute.name + "-wal")
    is_immutable = not os.access(absolute.parent, os.W_OK) and not (wal.exists() and wal.stat().st_size)
    query = {"mode": "ro", "uri": "true"} | ({"immutable": "1"} if is_immutable else {})
    return sqlite_url(f"file:{quote(str(absolute))}", query)  # quoted once for SQLite and once for SQLAlchemy


def harden(engine: sa.Engine) -> None:
    """Makes an engine distrust its file (SQLite, "Defense Against The Dark Arts"). Does nothing for databases other than SQLite.

    Lakeward's databases and lake catalogs have no views, triggers or virtual tables. In a file from elsewhere, their SQL would run when a
    program reads or writes a table. Raises SetupError for a file with such SQL, SQLAlchemyError if it cannot be read.
    """
    if engine.dialect.name != "sqlite":
        return
    from sqlalchemy import event

    event.listen(engine, "connect", _harden_schema)
    with engine.connect() as connection:
        row = connection.exec_driver_sql(_FIND_STORED_SQL).first()
    if row is not None:
        engine.dispose()
        raise SetupError(
            f"the database {engine.url.database} holds the {row.type} {str(row.name)[:60]!r}, which Lakeward's databases never have",
            hint="Programs that open the file would run this SQL. Check where the file comes from.",
        )


def _harden_schema(connection: sqlite3.Connection, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA trusted_schema=OFF")
    cursor.execute("PRAGMA cell_size_check=ON")
    cursor.close()
