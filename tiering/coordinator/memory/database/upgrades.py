"""Upgrades a state store's tables with Alembic. The revisions are in `migrations/versions`.

A revision only adds tables, indexes, and nullable columns; it may replace an index by a better one. So the previous version of Lakeward can
still read and write the store. A change that such a version could not handle also increases `sql_schema.VERSION`; then that version refuses
the store.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

VERSION_TABLE = "lakeward_revision"
NEWEST = "0005"
"""The revision that `sql_schema` declares."""

_SCRIPTS = Path(__file__).parent / "migrations"
_UPGRADING = 5_707_310
"""Key of PostgreSQL's transaction-level advisory lock for changes of tables, because two coordinators may start at once."""


def revision(connection: sa.Connection) -> str | None:
    """Returns the revision of the store's tables; None if an older version without revisions wrote it, or there is no store yet."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    number: str | None = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return number


def upgrade(connection: sa.Connection) -> None:
    """Runs the missing revisions in the connection's transaction; none if a newer Lakeward has upgraded the store.

    SQLite commits each statement that changes a table. After a crash between two statements they run again, so each revision is repeatable.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADING})
    # Alembic is imported below and not above, because most starts find the store up to date.
    if (present := revision(connection)) == NEWEST:
        return
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes.update(connection=connection, version_table=VERSION_TABLE)
    known_revisions = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if present is None or present in known_revisions:
        command.upgrade(config, "head")
