"""Removes offsets files of Lakeward's earlier commits that are not needed any more (docs/beside-flink.md, R6).

A file of Lakeward's is needed while a snapshot that is registered in Fluss, or the newest tiering snapshot of the lake, may name it, and
while the commit request that carries it may still land. Once Fluss knows the newest tiering snapshot, and that is Lakeward's, then

   a file older than the one in its summary    is of a commit that landed before, or cannot land any more: its compare-and-set demands
                                               a tag that has moved on
   a file for a registered snapshot            stays: another service's recovery may have registered this file

Only files in the ledger are removed, so none of another service, and only from the table's own folder. Each step is idempotent: a file is
removed before its entry leaves the ledger. A failed step is retried after the next commit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import structlog

from tiering.cluster.fluss.offsets_files.ledger import OffsetsFileLedger, PreparedFile
from tiering.cluster.fluss.remote.files import open_remote
from tiering.errors import LakewardError
from tiering.model.tables import TableInfo

_log = structlog.get_logger(__name__)

_NAME = re.compile(r"[0-9A-Za-z-]+\.offsets")


def superseded(files: Sequence[PreparedFile], newest_path: str, is_registered: Callable[[int], bool]) -> list[PreparedFile]:
    """Returns the files that are not needed, given the file that the newest tiering snapshot names; none if that one is not in the ledger.
    Pure.
    """
    newest = next((file for file in files if file.path == newest_path), None)
    if newest is None:
        return []
    answers: dict[int, bool] = {}

    def is_needed(file: PreparedFile) -> bool:
        snapshot_id = file.lake_snapshot_id
        if snapshot_id is None:
            return False
        if snapshot_id not in answers:
            answers[snapshot_id] = is_registered(snapshot_id)
        return answers[snapshot_id]

    return [file for file in files if file.number < newest.number and not is_needed(file)]


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
