"""SQLite files of others, opened so that nothing in them is changed or locked for long."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa


def read_only_url(file: Path) -> str:
    """SQLAlchemy's URL of a file that may only be read (SQLite, "URI Filenames": `mode=ro`). It fails if there is no such file.

    To read a file with a write-ahead log SQLite wants to make a small file beside it. Where that cannot be, and the log holds
    nothing, nobody can change the file either: it is read without (`immutable`; SQLite, "Read-Only Databases" of WAL mode).
    """
    absolute = file.absolute()
    wal = absolute.with_name(absolute.name + "-wal")
    alone = not os.access(absolute.parent, os.W_OK) and not (wal.exists() and wal.stat().st_size)
    query = {"mode": "ro", "uri": "true"} | ({"immutable": "1"} if alone else {})
    # Quoted once for SQLite, and as SQLAlchemy wants it for SQLAlchemy.
    return sa.URL.create("sqlite", database=f"file:{quote(str(absolute))}", query=query).render_as_string(hide_password=False)
