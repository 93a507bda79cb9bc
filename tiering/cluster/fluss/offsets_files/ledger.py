"""The ledger of offsets files that Fluss prepared for Lakeward and that are not known to be registered: Fluss itself cannot list them.

A file is added when Fluss has named its path. It leaves the ledger when it is removed or registered; Fluss deletes registered files itself.
A file whose path never arrived is not in the ledger and stays: files of other services in the same folder cannot be told apart from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from tiering.cluster.fluss.memory import SCHEMA
from tiering.errors import StoreError

_files = sa.Table(
    "prepared_offsets_files",
    SCHEMA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("table_id", sa.BigInteger, nullable=False, index=True),
    sa.Column("path", sa.Text, nullable=False, unique=True),
    sa.Column("lake_snapshot_id", sa.BigInteger),
    sqlite_autoincrement=True,
)


@dataclass(frozen=True)
class PreparedFile:
    """An offsets file. `number` grows with each file. `lake_snapshot_id` is the snapshot of the file; None = no snapshot is known to name
    it.
    """

    number: int
    path: str
    lake_snapshot_id: int | None


class OffsetsFileLedger:
    """The ledger in one database. Safe to use from several threads; every call may raise StoreError."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def files(self, table_id: int) -> Sequence[PreparedFile]:
        """Returns the files of one table, oldest first."""
        query = sa.select(_files).where(_files.c.table_id == table_id).order_by(_files.c.number)
        with _border("read"), self._engine.connect() as connection:
            return [PreparedFile(row.number, row.path, row.lake_snapshot_id) for row in connection.execute(query)]

    def add(self, table_id: int, path: str, lake_snapshot_id: int | None) -> None:
        """Adds a file that Fluss has just written."""
        with _border("write"), self._engine.begin() as connection:
            connection.execute(sa.insert(_files).values(table_id=table_id, path=path, lake_snapshot_id=lake_snapshot_id))

    def learn(self, snapshots: Mapping[str, int]) -> None:
        """Records which snapshots of the lake name these paths."""
        with _border("write"), self._engine.begin() as connection:
            for path, lake_snapshot_id in snapshots.items():
                connection.execute(sa.update(_files).where(_files.c.path == path).values(lake_snapshot_id=lake_snapshot_id))

    def forget(self, paths: Collection[str]) -> None:
        """Removes files from the ledger, if they are in it."""
        with _border("write"), self._engine.begin() as connection:
            connection.execute(sa.delete(_files).where(_files.c.path.in_(paths)))


@contextmanager
def _border(doing: str) -> Iterator[None]:
    """Converts errors of the database to StoreError, with the cause kept."""
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        text = str(getattr(error, "orig", None) or error)
        hint = "Check the disk of the coordinator's data folder."
        raise StoreError(f"cannot {doing} the ledger of offsets files: {text}", hint=hint) from error
