"""The ledger of offsets files that Fluss prepared for us and that are not known to be registered: Fluss itself lists none.

A file is entered when Fluss named its path, and leaves the ledger once it is registered, which makes it Fluss's to delete, or removed. A
file whose path never arrived is in no ledger and stays: in the same folder lie those of other services, and nothing tells them apart.
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
    """`number` grows with each file. `lake_snapshot_id`: the snapshot that it is for; None = none is known that names it."""

    number: int
    path: str
    lake_snapshot_id: int | None


class OffsetsFileLedger:
    """The ledger in one database. Safe for several threads; every call may raise StoreError."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def files(self, table_id: int) -> Sequence[PreparedFile]:
        """Those of one table, oldest first."""
        wanted = sa.select(_files).where(_files.c.table_id == table_id).order_by(_files.c.number)
        with _border("read"), self._engine.connect() as connection:
            return [PreparedFile(row.number, row.path, row.lake_snapshot_id) for row in connection.execute(wanted)]

    def add(self, table_id: int, path: str, lake_snapshot_id: int | None) -> None:
        """Enters a file that Fluss has just written."""
        with _border("write"), self._engine.begin() as connection:
            connection.execute(sa.insert(_files).values(table_id=table_id, path=path, lake_snapshot_id=lake_snapshot_id))

    def learn(self, snapshots: Mapping[str, int]) -> None:
        """Enters which snapshots of the lake name these paths."""
        with _border("write"), self._engine.begin() as connection:
            for path, lake_snapshot_id in snapshots.items():
                connection.execute(sa.update(_files).where(_files.c.path == path).values(lake_snapshot_id=lake_snapshot_id))

    def forget(self, paths: Collection[str]) -> None:
        """Takes files out, whether they are in it or not."""
        with _border("write"), self._engine.begin() as connection:
            connection.execute(sa.delete(_files).where(_files.c.path.in_(paths)))


@contextmanager
def _border(doing: str) -> Iterator[None]:
    """Turns errors of the database into our own, with the cause kept."""
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        text = str(getattr(error, "orig", None) or error)
        hint = "Check the disk of the coordinator's data folder."
        raise StoreError(f"cannot {doing} the ledger of offsets files: {text}", hint=hint) from error
