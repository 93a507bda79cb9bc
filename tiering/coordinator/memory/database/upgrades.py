"""Brings a state store's tables up to date, with Alembic. The revisions are in `migrations/versions`.

A revision only adds: tables, indexes, columns that may be null. It may replace an index by one that does more. So a Lakeward of the version
before can still read and write. What such a version could not work with grows `sql_schema.VERSION` as well, and then it refuses.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

VERSION_TABLE = "lakeward_revision"
NEWEST = "0005"
"""The revision that `sql_schema` declares."""

_SCRIPTS = Path(__file__).parent / "migrations"
_UPGRADING = 5_707_310
"""PostgreSQL's advisory lock (of a transaction) under which tables change: two coordinators may start at once."""


def revision(connection: sa.Connection) -> str | None:
    """The revision of the store's tables; None = of a version that kept none, or no store yet."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    number: str | None = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return number


def upgrade(connection: sa.Connection) -> None:
    """Runs the revisions that the store lacks, in the connection's transaction; none if a newer Lakeward has been here.

    SQLite commits each statement that changes a table: what dies between two is done again, so each revision may be repeated.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADING})
    # Here and not above: most starts find the store up to date.
    if (present := revision(connection)) == NEWEST:
        return
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, version_table=VERSION_TABLE)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if present is None or present in known:
        command.upgrade(config, "head")
