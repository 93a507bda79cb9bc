"""The tables of the SQL store, how its database is opened and upgraded, and the version check.

Alembic upgrades the tables. The revisions are in `migrations/versions`. A revision only adds tables, indexes, and nullable columns; it may
replace an index by a better one. So the previous version of Lakeward can still read and write the store. A change that such a version could
not handle also increases `VERSION`; then that version refuses the store.
"""

from __future__ import annotations

import sqlite3
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tiering.errors import InvalidArgument, SetupError
from tiering.extras import install_hint
from tiering.files.sqlite_files import harden, read_only_url
from tiering.library_guards.sql_timeouts import bound_waits
from tiering.redaction.redact import remember_secrets

VERSION = 1
"""Increases with every change that an older coordinator could not read."""

_metadata = sa.MetaData()

owner = sa.Table(
    "lakeward_owner",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("writes", sa.BigInteger, nullable=False),
    sa.Column("holder", sa.String(64)),
)
"""One row. `holder` is a random name that each take-over writes. It identifies the owner if two coordinators have one epoch, which happens
after a backup of the store was restored."""
tables = sa.Table(
    "lakeward_tables",
    _metadata,
    sa.Column("table_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("path", sa.String(401), nullable=False, index=True),
    sa.Column("state", sa.String(16)),
    sa.Column("body", sa.JSON, nullable=False),
)


def _path_columns() -> tuple[sa.Column[str], sa.Column[str]]:
    """Returns the columns that identify a row's table.

    Rows of older versions lack them and other look-up columns; `SqlStore.take_over` fills them from the bodies.
    """
    return sa.Column("database_name", sa.String(200)), sa.Column("table_name", sa.String(200))


def _indexes(name: str, time: str, *fields: str) -> tuple[sa.Index, ...]:
    """Returns indexes by time for the rows with one value of a column, or of one table. With them, a page is read without reading other
    rows."""
    by_path = sa.Index(f"{name}_by_path", "database_name", "table_name", time)
    return by_path, *(sa.Index(f"{name}_by_{field}", field, time) for field in ("table_name", *fields))


def _history(name: str) -> sa.Table:
    return sa.Table(
        name,
        _metadata,
        sa.Column("round_id", sa.String(64), primary_key=True),
        sa.Column("table_id", sa.BigInteger, nullable=False),
        sa.Column("tiering_epoch", sa.BigInteger, nullable=False),
        sa.Column("made_us", sa.BigInteger, nullable=False, index=True),
        sa.Column("closed", sa.Boolean, nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
        *_path_columns(),
        sa.Column("state", sa.String(16)),
        sa.Index(f"{name}_by_epoch", "table_id", "tiering_epoch"),
        *_indexes(name, "made_us", "state"),
    )


rounds = _history("lakeward_rounds")
commits = _history("lakeward_commits")
errors = sa.Table(
    "lakeward_errors",
    _metadata,
    sa.Column("error_key", sa.String(400), primary_key=True),
    *_path_columns(),
    sa.Column("round_id", sa.String(64), nullable=False),
    sa.Column("seen_us", sa.BigInteger, nullable=False, index=True),
    sa.Column("closed", sa.Boolean, nullable=False),
    sa.Column("body", sa.JSON, nullable=False),
    *_indexes("lakeward_errors", "seen_us"),
)
events = sa.Table(
    "lakeward_events",
    _metadata,
    # SQLite assigns numbers only to a plain INTEGER.
    sa.Column("event_id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("body", sa.JSON, nullable=False),
    *_path_columns(),
    sa.Column("occurred_us", sa.BigInteger, index=True),
    sa.Column("round_id", sa.String(64), index=True),
    sa.Column("level", sa.String(16)),
    sa.Column("event_type", sa.String(64)),
    sa.Column("principal", sa.Text),
    *_indexes("lakeward_events", "occurred_us", "level", "event_type", "principal"),
    sqlite_autoincrement=True,
)


def _numbered(name: str) -> sa.Table:
    """Returns a table of rows that never change. The database numbers them in the order in which they are written."""
    return sa.Table(
        name,
        _metadata,
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("body", sa.JSON, nullable=False),
        sqlite_autoincrement=True,
    )


validations = _numbered("lakeward_validations")
proofs = _numbered("lakeward_proofs")
operations = sa.Table(
    "lakeward_operations",
    _metadata,
    sa.Column("idempotency_key", sa.String(256), primary_key=True),
    sa.Column("started_us", sa.BigInteger, nullable=False, index=True),
    sa.Column("body", sa.JSON, nullable=False),
)
former_rounds = sa.Table(
    "lakeward_former_rounds",
    _metadata,
    sa.Column("table_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("body", sa.JSON, nullable=False),
)
"""By table, the rounds that the ledger no longer has, but whose files the lake still stores (`lake.rules.upkeep.former_rounds`)."""
read_holds = sa.Table(
    "lakeward_read_holds",
    _metadata,
    sa.Column("hold_id", sa.String(64), primary_key=True),
    sa.Column("body", sa.JSON, nullable=False),
)
"""The needs of open reads. A coordinator that takes over reads all rows."""
leader = sa.Table(
    "lakeward_leader",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("address", sa.String(300), nullable=False),
    sa.Column("beats", sa.BigInteger, nullable=False),
    sa.Column("cluster", sa.String(300), nullable=False),
)
"""At most one row. In SQLite it only identifies the cluster of the store, because one process at a time has the folder's lock."""
keys = sa.Table(
    "lakeward_keys",
    _metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("key", sa.LargeBinary, nullable=False),
)
"""Secret keys of the service, by their use. Coordinators that follow each other on one store share them."""


def open_engine(url: str) -> sa.Engine:
    """Returns an engine for a URL. SQLite gets a write-ahead log that is synced at every commit."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite":
        engine = bound_waits(sa.create_engine(parsed, pool_pre_ping=True))
        sa.event.listen(engine, "connect", _configure_postgresql)
        return engine
    engine = sa.create_engine(parsed, connect_args={"timeout": 30})
    sa.event.listen(engine, "connect", _configure_sqlite)
    harden(engine)
    return engine


def _configure_postgresql(connection: Any, _record: Any) -> None:
    """Makes an answered commit durable, whatever the server's default is."""
    connection.execute("SET synchronous_commit = on")
    connection.commit()


def _configure_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def prepare(engine: sa.Engine) -> None:
    """Upgrades the tables. Raises SetupError for a store that a newer version wrote, without changing it.

    New fields of a body always have a default, so that an older version can still read and write.
    """
    with engine.begin() as connection:
        if sa.inspect(connection).has_table(owner.name):
            _check_version(connection.execute(sa.select(owner.c.version)).scalar_one_or_none() or VERSION)
        upgrade(connection)
        if connection.execute(sa.select(owner.c.version)).scalar_one_or_none() is None:
            connection.execute(sa.insert(owner).values(id=1, version=VERSION, epoch=0, writes=0))


def _missing_columns(connection: sa.Connection) -> list[sa.Column[Any]]:
    """Returns declared columns that the existing tables in the database lack."""
    inspector = sa.inspect(connection)
    present = set(inspector.get_table_names())
    tables = [table for table in _metadata.sorted_tables if table.name in present]
    names = {table.name: {column["name"] for column in inspector.get_columns(table.name)} for table in tables}
    return [column for table in tables for column in table.columns if column.name not in names[table.name]]


def open_for_reading(file: Path) -> sa.Engine:
    """Returns an engine that only reads a SQLite store, also while its coordinator runs. Raises SetupError: no store, another version."""
    if not file.is_file():
        raise SetupError(
            f"{file.parent} holds no state store: {file.name} is missing", hint="Name the data folder of a coordinator that ran."
        )
    engine = sa.create_engine(read_only_url(file), connect_args={"timeout": 30})
    try:
        harden(engine)
        with engine.connect() as connection:
            missing = _metadata.tables.keys() - set(sa.inspect(connection).get_table_names())
            unfinished = bool(missing or _missing_columns(connection))
            version = None if owner.name in missing else connection.execute(sa.select(owner.c.version)).scalar_one_or_none()
    except sa.exc.SQLAlchemyError as error:
        text = str(getattr(error, "orig", None) or error)
        raise SetupError(f"cannot read the state store {file}: {text}", hint="Is it a Lakeward data folder that you may read?") from error
    if version is not None:
        _check_version(version)
    if version is None or unfinished:
        raise SetupError(
            f"the state store {file} was left unfinished, or written by an older version",
            hint="Start `lakeward up` on it once: it brings the store up to date.",
        )
    return engine


def _check_version(version: int) -> None:
    if version > VERSION:
        raise SetupError(
            f"the state store has version {version}; this Lakeward knows versions up to {VERSION}",
            hint="Use the Lakeward that wrote it, or a newer one.",
        )


VERSION_TABLE = "lakeward_revision"
NEWEST = "0008"
"""The revision that this module declares."""

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


_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")


def postgresql_url(text: str) -> str:
    """Returns SQLAlchemy's URL of `postgresql://[user[:password]@][host][:port]/database[?parameter=...]`, with libpq's parameters.

    From now on its password is masked in all texts. Raises InvalidArgument for another address, SetupError without psycopg.
    """
    remember_secrets({"uri": text})
    try:
        url = sa.make_url(text.strip())
    except sa.exc.ArgumentError:
        url = sa.URL.create("none")
    if url.drivername not in _SCHEMES or not url.database:
        raise InvalidArgument(
            "--state is not the address of a database in PostgreSQL",
            hint="Write it as postgresql://host:5432/database, the user in PGUSER and the password in PGPASSWORD or ~/.pgpass. "
            "Without --state the state is a file in the data folder.",
        )
    if find_spec("psycopg") is None:
        raise SetupError("--state needs the Python package psycopg, which is not installed", hint=install_hint("postgres"))
    return url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
