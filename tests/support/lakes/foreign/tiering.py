"""Snapshots with the commit user of Fluss's own tiering in a `LakeKit`'s tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from support.lakes.lake_kit import LakeKit
from support.worlds.validated import local
from tiering.clock import SystemClock
from tiering.lake.base import FLUSS_COMMIT_USER
from tiering.lake.iceberg.commit.staging import FileChanges, SnapshotStager
from tiering.lake.iceberg.reading.view import TAG
from tiering.model.tables import TableInfo

FLINK = {"commit-user": FLUSS_COMMIT_USER}


def appended(kit: LakeKit, table: TableInfo, data: pa.Table, **more: str) -> int:
    loaded = kit.catalog().load_table(str(table.path))
    loaded.append(data, snapshot_properties={**FLINK, **more})
    head = loaded.current_snapshot()
    assert head is not None
    return head.snapshot_id


def written(kit: LakeKit, table: TableInfo, data: pa.Table, content: DataFileContent = DataFileContent.DATA) -> DataFile:
    """A file without bounds, in the partition of bucket 0."""
    loaded = kit.catalog().load_table(str(table.path))
    folder = local(loaded.location()) / "data"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"flink-{sum(1 for _ in folder.rglob('*'))}.parquet"
    pq.write_table(data, file)
    described = DataFile.from_args(
        content=content,
        file_path=f"file://{file}",
        file_format=FileFormat.PARQUET,
        partition=Record(0),
        record_count=data.num_rows,
        file_size_in_bytes=file.stat().st_size,
        equality_ids=[1] if content is DataFileContent.EQUALITY_DELETES else None,
    )
    described.spec_id = loaded.spec().spec_id
    return described


def committed(kit: LakeKit, table: TableInfo, files: list[DataFile], operation: Operation | None = None, **changes: Any) -> int:
    loaded = kit.catalog().load_table(str(table.path))
    stager = SnapshotStager(loaded, kit.view(table), "flink", SystemClock())
    staged = stager.stage(FileChanges(files, loaded.spec().spec_id, **changes), FLINK)
    updates = tuple(update for update in staged.updates if not (isinstance(update, SetSnapshotRefUpdate) and update.ref_name == TAG))
    if operation is not None:
        updates = tuple(with_operation(update, operation) for update in updates)
    loaded.catalog.commit_table(loaded, staged.requirements, updates)
    return staged.snapshot_id


def replaced(kit: LakeKit, table: TableInfo, data: pa.Table) -> int:
    """Bucket 0 in one new file, as Iceberg's RewriteFiles commits it."""
    return committed(kit, table, [written(kit, table, data)], Operation.REPLACE, replaced=frozenset({(0,)}))


def with_operation(update: Any, operation: Operation) -> Any:
    if not isinstance(update, AddSnapshotUpdate) or update.snapshot.summary is None:
        return update
    summary = Summary(operation, **update.snapshot.summary.additional_properties)
    return AddSnapshotUpdate(snapshot=update.snapshot.model_copy(update={"summary": summary}))
