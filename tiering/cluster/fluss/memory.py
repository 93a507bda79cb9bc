"""The coordinator's state about a Fluss cluster: which cluster it is, its known tables, and Lakeward's table options.

Fluss itself has no permanent name and accepts no table options but its own. The state is one SQLite file, owned by the coordinator's
process, or tables in the PostgreSQL database that `--state` names. Other modules of this package add their tables to `SCHEMA`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tiering.errors import SetupError, StoreError
from tiering.files.sqlite_files import harden, read_only_url, sqlite_url
from tiering.library_guards.sql_timeouts import bound_waits
from tiering.model.tables import TablePath

FILE_NAME = "fluss.db"
"""Name of the file in a data folder's `cluster/`."""
SCHEMA = sa.MetaData()
FORMAT_VERSION = "1"

_facts = sa.Table("facts", SCHEMA, sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text, nullable=False))
_tables = sa.Table(
    "known_tables",
    SCHEMA,
    sa.Column("table_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("database_name", sa.Text, nullable=False),
    sa.Column("table_name", sa.Text, nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
)
_options = sa.Table(
    "table_options",
    SCHEMA,
    sa.Column("table_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)


@dataclass(frozen=True)
class RecordedTable:
    """A table that this deployment has seen. Fluss never reuses a table id."""

    table_id: int
    path: TablePath
    created_ms: int


class FlussMemory:
    """Opens the file in `folder`, and creates it unless `read_only`; or opens the database of `url`. Safe to use from several threads.
    Raises SetupError.
    """

    def __init__(self, folder: Path, *, read_only: bool = False, url: str | None = None) -> None:
        file = folder / FILE_NAME
        if read_only and not file.is_file():
            raise SetupError(
                f"{folder} has no state of a Fluss cluster: {FILE_NAME} is missing", hint="Name a data folder of `lakeward up --fluss`."
            )
        where = str(file) if url is None else "the state store"
        self.engine = _file_engine(file, read_only) if url is None else bound_waits(sa.create_engine(url, pool_pre_ping=True))
        try:
            if url is None:
                harden(self.engine)
            if not read_only:
                SCHEMA.create_all(self.engine)
                if self.fact("format_version") is None:
                    self.set_fact("format_version", FORMAT_VERSION)
            version = self.fact("format_version")
        except sa.exc.SQLAlchemyError as error:
            self.engine.dispose()
            hint = "Check that it is a Lakeward data folder that this user may write to."
            raise SetupError(f"cannot open {where}: {error}", hint=hint) from error
        if version != FORMAT_VERSION:
            self.engine.dispose()
            raise SetupError(
                f"{where} has format version {version}, but this version of Lakeward reads {FORMAT_VERSION}", hint="Upgrade Lakeward."
            )

    def fact(self, name: str) -> str | None:
        """Returns a fact of the deployment; None = not known yet."""
        with self.engine.connect() as connection:
            return connection.execute(sa.select(_facts.c.value).where(_facts.c.name == name)).scalar()

    def set_fact(self, name: str, value: str) -> None:
        """Replaces a fact."""
        with self.engine.begin() as connection:
            connection.execute(sa.delete(_facts).where(_facts.c.name == name))
            connection.execute(sa.insert(_facts).values(name=name, value=value))

    def known_tables(self) -> Mapping[int, RecordedTable]:
        """Returns the tables that this deployment has seen, by id, including dropped ones."""
        with self.engine.connect() as connection:
            rows = connection.execute(sa.select(_tables)).all()
        return {row.table_id: RecordedTable(row.table_id, TablePath(row.database_name, row.table_name), row.created_ms) for row in rows}

    def remember_tables(self, tables: Iterable[RecordedTable]) -> None:
        """Records these tables permanently; idempotent."""
        rows = [
            {
                "table_id": table.table_id,
                "database_name": table.path.database_name,
                "table_name": table.path.table_name,
                "created_ms": table.created_ms,
            }
            for table in tables
        ]
        if rows:
            with self.engine.begin() as connection:
                connection.execute(sa.delete(_tables).where(_tables.c.table_id.in_([row["table_id"] for row in rows])))
                connection.execute(sa.insert(_tables), rows)

    def table_options(self) -> Mapping[int, Mapping[str, str]]:
        """Returns Lakeward's options by table id."""
        options: dict[int, dict[str, str]] = {}
        with self.engine.connect() as connection:
            for row in connection.execute(sa.select(_options)):
                options.setdefault(row.table_id, {})[row.name] = row.value
        return options

    def set_table_option(self, table_id: int, name: str, value: str | None) -> None:
        """Sets one of Lakeward's options; None removes it."""
        with self.engine.begin() as connection:
            connection.execute(sa.delete(_options).where(_options.c.table_id == table_id, _options.c.name == name))
            if value is not None:
                connection.execute(sa.insert(_options).values(table_id=table_id, name=name, value=value))

    def close(self) -> None:
        self.engine.dispose()


@contextmanager
def ledger_errors(action: str) -> Iterator[None]:
    """Converts errors of the database to StoreError, which names the `action` that failed. The cause is kept."""
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        text = str(getattr(error, "orig", None) or error)
        raise StoreError(f"cannot {action}: {text}", hint="Check the disk of the coordinator's data folder.") from error


def _file_engine(file: Path, read_only: bool) -> sa.Engine:
    engine = sa.create_engine(read_only_url(file) if read_only else sqlite_url(str(file)))
    sa.event.listen(engine, "connect", _set_up)
    return engine


def _set_up(connection: sqlite3.Connection, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA busy_timeout=10000")
    cursor.close()
