"""The ledger of offsets files that Fluss prepared for Lakeward and that are not known to be registered: Fluss itself cannot list them.

A file is added when Fluss has named its path. It leaves the ledger when it is removed or registered; Fluss deletes registered files itself.
A file whose path never arrived is not in the ledger and stays: files of other services in the same folder cannot be told apart from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import sqlalchemy as sa
import structlog

from tiering.cluster.fluss.memory import SCHEMA, ledger_errors
from tiering.cluster.fluss.remote_files import open_remote
from tiering.errors import LakewardError
from tiering.model.tables import TableInfo

_log = structlog.get_logger(__name__)

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
        with ledger_errors("read the ledger of offsets files"), self._engine.connect() as connection:
            return [PreparedFile(row.number, row.path, row.lake_snapshot_id) for row in connection.execute(query)]

    def add(self, table_id: int, path: str, lake_snapshot_id: int | None) -> None:
        """Adds a file that Fluss has just written."""
        with ledger_errors("write the ledger of offsets files"), self._engine.begin() as connection:
            connection.execute(sa.insert(_files).values(table_id=table_id, path=path, lake_snapshot_id=lake_snapshot_id))

    def learn(self, snapshots: Mapping[str, int]) -> None:
        """Records which snapshots of the lake name these paths."""
        with ledger_errors("write the ledger of offsets files"), self._engine.begin() as connection:
            for path, lake_snapshot_id in snapshots.items():
                connection.execute(sa.update(_files).where(_files.c.path == path).values(lake_snapshot_id=lake_snapshot_id))

    def forget(self, paths: Collection[str]) -> None:
        """Removes files from the ledger, if they are in it."""
        with ledger_errors("write the ledger of offsets files"), self._engine.begin() as connection:
            connection.execute(sa.delete(_files).where(_files.c.path.in_(paths)))


_NAME = re.compile(r"[0-9A-Za-z-]+\.offsets")


# Removal of offsets files that are not needed any more (docs/beside-flink.md, R6). A file of Lakeward's is needed while a snapshot that
# is registered in Fluss, or the newest tiering snapshot of the lake, may name it, and while the commit request that carries it may still
# land. Once Fluss knows the newest tiering snapshot, and that is Lakeward's, then
#    a file older than the one in its summary    is of a commit that landed before, or cannot land any more: its compare-and-set demands
#                                                a tag that has moved on
#    a file for a registered snapshot            stays: another service's recovery may have registered this file
# Only files in the ledger are removed, so none of another service, and only from the table's own folder. Each step is idempotent: a file
# is removed before its entry leaves the ledger. A failed step is retried after the next commit.
def superseded(files: Sequence[PreparedFile], newest_path: str, is_registered: Callable[[int], bool]) -> list[PreparedFile]:
    """Returns the files that are not needed, given the file that the newest tiering snapshot names; none if that one is not in the ledger.
    Pure.
    """
    newest = next((file for file in files if file.path == newest_path), None)
    if newest is None:
        return []
    is_needed = cache(is_registered)
    older = [file for file in files if file.number < newest.number]
    return [file for file in older if file.lake_snapshot_id is None or not is_needed(file.lake_snapshot_id)]


def clean_up(
    ledger: OffsetsFileLedger,
    table: TableInfo,
    snapshots: Mapping[int, str],
    newest_snapshot_id: int,
    is_registered: Callable[[int], bool],
    properties: Mapping[str, str],
) -> None:
    """Removes superseded files. Logs failures, and raises nothing.

    Called when Fluss has `newest_snapshot_id`. `snapshots` are the paths that the lake's snapshots name.
    """
    try:
        newest_path = snapshots.get(newest_snapshot_id)
        files = ledger.files(table.table_id)
        if newest_path is None or len(files) < 2:
            return
        in_ledger = {file.path for file in files if file.lake_snapshot_id is None}
        ledger.learn({path: snapshot_id for snapshot_id, path in snapshots.items() if path in in_ledger})
        for file in superseded(ledger.files(table.table_id), newest_path, is_registered):
            if _is_of(table, file.path):
                _remove(file.path, properties)
            ledger.forget([file.path])
    except (LakewardError, OSError, pa.ArrowException) as error:
        _log.warning("offsets files of earlier commits stay until the next one", table=str(table.path), error=str(error))


def _is_of(table: TableInfo, path: str) -> bool:
    """Returns whether a path that a server named is that of an offsets file of this table."""
    folder, _, name = path.rpartition("/")
    own = f"/lake/{table.path.database_name}/{table.path.table_name}-{table.table_id}/metadata"
    return folder.endswith(own) and _NAME.fullmatch(name) is not None


def _remove(path: str, properties: Mapping[str, str]) -> None:
    file_system, place = open_remote(path, properties)
    try:
        file_system.delete_file(place)
    except FileNotFoundError:
        return  # another process has removed it already
