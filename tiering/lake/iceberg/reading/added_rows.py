"""The rows that a snapshot of Fluss's own tiering added to an Iceberg table, as offsets per bucket.

The offsets come from the bounds of `__bucket` and `__offset` in the manifests that the snapshot wrote (Iceberg spec, "Manifests"). If a
file has no bounds, or rows of several buckets, they come from its rows. Equality-delete files count, because Fluss writes whole old rows
into them. In a partitioned table the commit times are read too, because a partition may have been dropped and recreated.
`clean_rows` judges rows of a clean layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import IntegerType, LongType, PrimitiveType, TimestamptzType

from tiering.lake.base import LakeView
from tiering.lake.fluss.offsets_file import stated_offsets
from tiering.lake.foreign import AddedRows, ForeignSnapshot
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.primary_key.bucket_files import partition_of
from tiering.lake.iceberg.primary_key.parquet_files import column_name
from tiering.lake.iceberg.reading.lake_parquet import LakeParquet, open_lake_file
from tiering.lake.iceberg.reading.survey import foreign_offsets
from tiering.lake.iceberg.schema.drift import drift
from tiering.lake.iceberg.schema.layout import layout_of_schema
from tiering.lake.iceberg.schema.partition_values import partition_values
from tiering.lake.log_starts import commit_times_ms, to_ms
from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN, TIMESTAMP_COLUMN, BucketKey, TableInfo, TableType

_BATCH_ROWS = 1 << 18


def foreign_snapshot(table: TableInfo, view: LakeView, snapshot_id: int, partitions: Mapping[str, int]) -> ForeignSnapshot:
    """Returns what the snapshot added (`ForeignCommits.foreign_snapshot`)."""
    loaded = cast(Table, view.handle)
    with lake_errors(f"read what snapshot {snapshot_id} added to {view.path}", table_path=view.path):
        added, removed = changed_files(loaded, snapshot_id)
        is_rewrite = _is_rewrite(table, loaded, snapshot_id, added, removed)
        stated = stated_offsets(table, lambda: foreign_offsets(view, snapshot_id))
        ids, count = partition_ids(table, loaded, partitions), len(table.partition_keys)
        data = [file for file in added if file.content is DataFileContent.DATA] if count and not is_rewrite else []
        named = {partition_of(file)[:count] for file in data}
        has_dropped = not named <= ids.keys()
        if not layout_of_schema(loaded.schema()).has_row_offsets:
            members = frozenset(ids[values] for values in named & ids.keys())
            has_rows = bool(added or removed)
            return ForeignSnapshot(snapshot_id, {}, stated.offsets, is_rewrite, has_rows, stated.unread, has_dropped, members)
        rows: dict[BucketKey, AddedRows] = {}
        for file in added:
            if file.content is DataFileContent.POSITION_DELETES:
                continue  # they delete rows of this very snapshot
            values = partition_of(file)[:count]
            if count and values not in ids:
                continue  # the partition was dropped
            for bucket_id, piece in _pieces(table, loaded, file):
                key = BucketKey(ids[values] if count else None, bucket_id)
                rows[key] = rows[key].with_more(piece) if key in rows else piece
    return ForeignSnapshot(snapshot_id, rows, stated.offsets, is_rewrite, has_dropped_rows=has_dropped)


def _is_rewrite(table: TableInfo, loaded: Table, snapshot_id: int, added: Sequence[DataFile], removed: Sequence[DataFile]) -> bool:
    """Whether the snapshot replaced files and added no row."""
    snapshot = loaded.metadata.snapshot_by_id(snapshot_id)
    replaces = snapshot is not None and snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE
    return replaces and _adds_nothing(table, added, removed)


def changed_files(loaded: Table, snapshot_id: int) -> tuple[list[DataFile], list[DataFile]]:
    """Returns the files that the snapshot added, including delete files, and the data files that it removed."""
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
    """Whether files were only rewritten. A rewrite of a primary-key table leaves out deleted rows."""
    before = sum(file.record_count for file in removed)
    after = sum(file.record_count for file in added if file.content is DataFileContent.DATA)
    return after == before if table.table_type is TableType.LOG else after <= before


def partition_ids(table: TableInfo, loaded: Table, partitions: Mapping[str, int]) -> dict[tuple[Any, ...], int]:
    """Returns partition ids by the values of the partition columns, in the form of the files."""
    bucket, count = BucketKey(None, 0), len(table.partition_keys)
    return {partition_values(table, bucket, name, loaded.schema())[:count]: number for name, number in partitions.items()}


def _pieces(table: TableInfo, loaded: Table, file: DataFile) -> Iterator[tuple[int, AddedRows]]:
    """Yields the rows of a file by bucket id. A file of deletes has no records."""
    is_data, is_partitioned = file.content is DataFileContent.DATA, bool(table.partition_keys)
    buckets, offsets = _bounds(loaded, file, BUCKET_COLUMN, IntegerType()), _bounds(loaded, file, OFFSET_COLUMN, LongType())
    times = _bounds(loaded, file, TIMESTAMP_COLUMN, TimestamptzType()) if is_partitioned else None
    if buckets is not None and offsets is not None and buckets[0] == buckets[1] and (times is not None or not is_partitioned):
        newest_ms = None if times is None else to_ms(times[1])
        yield buckets[0], AddedRows(offsets[0], offsets[1] + 1, file.record_count if is_data else 0, newest_ms)
        return
    requested = (BUCKET_COLUMN, OFFSET_COLUMN, *((TIMESTAMP_COLUMN,) if is_partitioned else ()))
    with open_lake_file(loaded.io, file.file_path) as stream:
        parquet = LakeParquet(stream, file.file_path)
        names = [column_name(parquet, loaded.schema().find_field(name)) for name in requested]
        if None in names:
            raise drift(table.path, None, f"has the file {file.file_path} of another tiering service, which has no offsets")
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=cast("list[str]", names), use_threads=False):
            bucket_ids, numbers = (batch.column(cast(str, name)).to_numpy() for name in names[:2])
            moments = commit_times_ms(batch.column(cast(str, names[2]))) if is_partitioned else None
            for bucket_id in np.unique(bucket_ids):
                is_member = bucket_ids == bucket_id
                newest_ms, own = None if moments is None else int(moments[is_member].max()), numbers[is_member]
                yield int(bucket_id), AddedRows(int(own.min()), int(own.max()) + 1, len(own) if is_data else 0, newest_ms)


def _bounds(loaded: Table, file: DataFile, column: str, kind: PrimitiveType) -> tuple[int, int] | None:
    field_id = loaded.schema().find_field(column).field_id
    lower, upper = (file.lower_bounds or {}).get(field_id), (file.upper_bounds or {}).get(field_id)
    if lower is None or upper is None:
        return None
    return int(from_bytes(kind, lower)), int(from_bytes(kind, upper))
