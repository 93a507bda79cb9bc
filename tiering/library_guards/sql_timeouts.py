"""Sets time-outs of database connections.

Without a time-out drivers wait for ever, and a thread that waits for ever is lost. Settings in the URL have precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

CONNECT_SECONDS = 10
STATEMENT_SECONDS = 60
"""Time limit of one statement. Statements are short, so a statement that takes longer waits for a lock."""
SQLITE_BUSY_SECONDS = 20
"""Seconds that SQLite waits for another writer. The driver's default of 5 s is too short on a busy disk."""

_LIBPQ: Mapping[str, Any] = {
    "connect_timeout": CONNECT_SECONDS,
    "tcp_user_timeout": STATEMENT_SECONDS * 1_000,
    # A connection whose peer vanished without a FIN is detected after a minute.
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
_MYSQL: Mapping[str, Any] = {"connect_timeout": CONNECT_SECONDS, "read_timeout": STATEMENT_SECONDS, "write_timeout": STATEMENT_SECONDS}
_ARGUMENTS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("sqlite", "pysqlite"): {"timeout": SQLITE_BUSY_SECONDS},
    ("postgresql", "psycopg"): _LIBPQ,
    ("postgresql", "psycopg2"): _LIBPQ,
    ("postgresql", "pg8000"): {"timeout": STATEMENT_SECONDS},
    ("mysql", "pymysql"): _MYSQL,
    ("mysql", "mysqldb"): _MYSQL,
    ("mariadb", "pymysql"): _MYSQL,
    ("mariadb", "mysqldb"): _MYSQL,
}


def bound_waits(engine: sa.Engine) -> sa.Engine:
    """Returns `engine` with time-outs for all connections from now on. Drivers that this module does not know keep their own."""
    arguments = _ARGUMENTS.get((engine.dialect.name, engine.dialect.driver), {})

    def add_arguments(_dialect: object, _record: object, _positional: object, named: dict[str, Any]) -> None:
        for name, value in arguments.items():
            named.setdefault(name, value)

    sa.event.listen(engine, "do_connect", add_arguments)
    if engine.dialect.name == "postgresql" and "statement_timeout" not in str(engine.url.query.get("options", "")):
        sa.event.listen(engine, "connect", limit_statements)
    return engine


def limit_statements(connection: Any, _record: object = None) -> None:
    """Sets PostgreSQL's own time limit with a statement: a pooler between client and server may refuse it as a connection option."""
    cursor = connection.cursor()
    try:
        cursor.execute(f"SET statement_timeout = {STATEMENT_SECONDS * 1_000}")
    finally:
        cursor.close()
    connection.commit()  # else the first rollback would undo the setting
