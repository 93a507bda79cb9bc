"""What a snapshot of Fluss's own tiering added to an Iceberg table: the offsets of its rows per bucket.

They come from the bounds of `__bucket` and `__offset` in the manifests that the snapshot wrote (Iceberg spec, "Manifests"), or from the
file's rows where it has no bounds, or those of several buckets. Equality-delete files count: Fluss writes whole old rows into them.
What rows of a clean layout are worth is told by `clean_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import IntegerType, LongType, PrimitiveType

from tiering.lake.base import LakeView
from tiering.lake.fluss.offsets_file import stated_offsets
from tiering.lake.foreign import AddedRows, ForeignSnapshot
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.primary_key.parquet_files import column_name
from tiering.lake.iceberg.reading.lake_parquet import LakeParquet, open_lake_file
from tiering.lake.iceberg.reading.survey import foreign_offsets
from tiering.lake.iceberg.schema.drift import drift
from tiering.lake.iceberg.schema.layout import layout_of_schema
from tiering.lake.iceberg.schema.partition_values import partition_values
from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN, BucketKey, TableInfo, TableType

_BATCH_ROWS = 1 << 18


@dataclass(frozen=True)
class _Piece:
    """Rows of one bucket in one file; `records` 0 for those of a file of deletes."""

    bucket_id: int
    begin: int
    end: int
    records: int


def foreign_snapshot(table: TableInfo, view: LakeView, snapshot_id: int, partitions: Mapping[str, int]) -> ForeignSnapshot:
    """See `ForeignCommits.foreign_snapshot`."""
    loaded = cast(Table, view.handle)
    with lake_errors(f"read what snapshot {snapshot_id} added to {view.path}", table_path=view.path):
        added, removed = changed_files(loaded, snapshot_id)
        is_rewrite = _is_rewrite(table, loaded, snapshot_id, added, removed)
        stated = stated_offsets(table, lambda: foreign_offsets(view, snapshot_id))
        if not layout_of_schema(loaded.schema()).has_row_offsets:
            has_rows = bool(added or removed)
            return ForeignSnapshot(snapshot_id, {}, stated.offsets, is_rewrite, has_clean_rows=has_rows, unread=stated.unread)
        ids = partition_ids(table, loaded, partitions)
        rows: dict[BucketKey, AddedRows] = {}
        for file in added:
            if file.content is DataFileContent.POSITION_DELETES:
                continue  # they name rows of this very snapshot
            values = tuple(file.partition[index] for index in range(len(table.partition_keys)))
            if table.partition_keys and values not in ids:
                continue  # of a partition that is gone
            for piece in _pieces(table, loaded, file):
                key = BucketKey(ids[values] if table.partition_keys else None, piece.bucket_id)
                rows[key] = _together(rows.get(key), piece)
    return ForeignSnapshot(snapshot_id, rows, stated.offsets, is_rewrite)


def _is_rewrite(table: TableInfo, loaded: Table, snapshot_id: int, added: Sequence[DataFile], removed: Sequence[DataFile]) -> bool:
    """Whether the snapshot replaced files and added no row."""
    snapshot = loaded.metadata.snapshot_by_id(snapshot_id)
    replaces = snapshot is not None and snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE
    return replaces and _adds_nothing(table, added, removed)


def changed_files(loaded: Table, snapshot_id: int) -> tuple[list[DataFile], list[DataFile]]:
    """Files that the snapshot added, those of deletes included, and data files that it removed."""
    snapshot = loaded.metadata.snapshot_by_id(snapshot_id)
    added: list[DataFile] = []
    removed: list[DataFile] = []
    for manifest in [] if snapshot is None else snapshot.manifests(loaded.io):
        if manifest.added_snapshot_id != snapshot_id:
            continue
        for entry in manifest.fetch_manifest_entry(loaded.io, discard_deleted=False):
            if entry.status is ManifestEntryStatus.ADDED:
                added.append(entry.data_file)
            elif entry.status is ManifestEntryStatus.DELETED and entry.data_file.content is DataFileContent.DATA:
                removed.append(entry.data_file)
    return added, removed


def _adds_nothing(table: TableInfo, added: Iterable[DataFile], removed: Iterable[DataFile]) -> bool:
    """Whether files were only written anew. Of a primary-key table that leaves out rows that were deleted."""
    before = sum(file.record_count for file in removed)
    after = sum(file.record_count for file in added if file.content is DataFileContent.DATA)
    return after == before if table.table_type is TableType.LOG else after <= before


def partition_ids(table: TableInfo, loaded: Table, partitions: Mapping[str, int]) -> dict[tuple[Any, ...], int]:
    """By the values of the partition columns, as files have them."""
    bucket, count = BucketKey(None, 0), len(table.partition_keys)
    return {partition_values(table, bucket, name, loaded.schema())[:count]: number for name, number in partitions.items()}


def _pieces(table: TableInfo, loaded: Table, file: DataFile) -> Iterator[_Piece]:
    is_data = file.content is DataFileContent.DATA
    buckets, offsets = _bounds(loaded, file, BUCKET_COLUMN, IntegerType()), _bounds(loaded, file, OFFSET_COLUMN, LongType())
    if buckets is not None and offsets is not None and buckets[0] == buckets[1]:
        yield _Piece(buckets[0], offsets[0], offsets[1] + 1, file.record_count if is_data else 0)
        return
    with open_lake_file(loaded.io, file.file_path) as stream:
        parquet = LakeParquet(stream, file.file_path)
        names = [column_name(parquet, loaded.schema().find_field(name)) for name in (BUCKET_COLUMN, OFFSET_COLUMN)]
        if None in names:
            raise drift(table.path, None, f"was given the file {file.file_path} by another tiering service, which has no offsets")
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=cast("list[str]", names), use_threads=False):
            bucket_ids, numbers = (batch.column(cast(str, name)).to_numpy() for name in names)
            for bucket_id in np.unique(bucket_ids):
                mine = numbers[bucket_ids == bucket_id]
                yield _Piece(int(bucket_id), int(mine.min()), int(mine.max()) + 1, len(mine) if is_data else 0)


def _bounds(loaded: Table, file: DataFile, column: str, kind: PrimitiveType) -> tuple[int, int] | None:
    field_id = loaded.schema().find_field(column).field_id
    lower, upper = (file.lower_bounds or {}).get(field_id), (file.upper_bounds or {}).get(field_id)
    if lower is None or upper is None:
        return None
    return int(from_bytes(kind, lower)), int(from_bytes(kind, upper))


def _together(rows: AddedRows | None, piece: _Piece) -> AddedRows:
    if rows is None:
        return AddedRows(piece.begin, piece.end, piece.records)
    return AddedRows(min(rows.begin, piece.begin), max(rows.end, piece.end), rows.records + piece.records)
