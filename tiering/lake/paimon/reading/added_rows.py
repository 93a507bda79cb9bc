"""Finds what a snapshot of Fluss's own tiering added to a Paimon table: the offsets of its rows by bucket.

The offsets come from the statistics of the system columns in the footers of the added files. For a file without statistics, or with several
buckets, they come from its rows. Changelog files count too, because a data file of a primary-key table has only the last change of each
key. For a clean layout `clean_rows` is used instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, cast

import numpy as np
import pyarrow.parquet as pq

from tiering.instants import to_milliseconds
from tiering.lake.base import FLUSS_OFFSETS_KEY, LakeView
from tiering.lake.fluss.offsets_file import OFFSETS_LIMIT_BYTES, is_offsets_path, parse_offsets, stated_offsets, unreadable
from tiering.lake.foreign import AddedRows, ForeignSnapshot
from tiering.lake.log_starts import commit_times_ms
from tiering.lake.maintenance import ForeignOffsets
from tiering.lake.paimon.commit.manifests import Changes, Manifests
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.data_files import open_data_file
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.reading.snapshots import StoredSnapshot
from tiering.lake.paimon.schema.drift import drift
from tiering.lake.paimon.schema.partitions import PartitionValue, partition_texts, partition_values
from tiering.lake.paimon.storage.base import Storage
from tiering.model.tables import SYSTEM_COLUMNS, BucketKey, TableInfo, TableType

_BATCH_ROWS = 1 << 18
_REMEMBERED_FILES = 10_000
APPEND, COMPACT = "APPEND", "COMPACT"
"""Kinds of commits that Fluss's tiering makes."""


_Pieces = tuple[tuple[int, AddedRows], ...]
"""The rows of one file, by bucket id."""


def foreign_snapshot(table: TableInfo, view: LakeView, snapshot_id: int, partitions: Mapping[str, int]) -> ForeignSnapshot:
    """Returns what the snapshot added. Implements `ForeignCommits.foreign_snapshot`."""
    loaded = cast(LoadedTable, view.handle)
    snapshot = loaded.snapshot(snapshot_id)
    if snapshot is None:
        raise drift(view.path, None, f"lost its snapshot {snapshot_id} while it was read")
    with lake_errors(f"read what snapshot {snapshot_id} added to {view.path}", table_path=view.path):
        manifests = Manifests(loaded)
        changes = manifests.changes(snapshot)
        is_rewrite = _is_rewrite(table, snapshot, changes)
        stated = stated_offsets(table, lambda: foreign_offsets(view, snapshot_id))
        ids = partition_ids(table, loaded, partitions) if table.partition_keys else {}
        named = {tuple(entry.partition.values) for entry in changes.added} if table.partition_keys and not is_rewrite else set()
        has_dropped = not named <= ids.keys()
        if not loaded.schema.layout.has_row_offsets:
            members = frozenset(ids[values] for values in named & ids.keys())
            has_rows = bool(changes.added or changes.removed or changes.changelog)
            return ForeignSnapshot(snapshot_id, {}, stated.offsets, is_rewrite, has_rows, stated.unread, has_dropped, members)
        _check_kind(table, snapshot, changes)
        rows = {} if is_rewrite else _added(table, loaded, manifests, changes, ids)
    return ForeignSnapshot(snapshot_id, rows, stated.offsets, is_rewrite, has_dropped_rows=has_dropped)


def _is_rewrite(table: TableInfo, snapshot: StoredSnapshot, changes: Changes) -> bool:
    """Returns whether files were only rewritten. For a primary-key table a rewrite may leave out rows that are replaced or deleted."""
    if snapshot.document["commitKind"] != COMPACT:
        return False
    before, after = (sum(int(entry.file.row_count) for entry in entries) for entries in (changes.removed, changes.added))
    return after == before if table.table_type is TableType.LOG else after <= before


def _check_kind(table: TableInfo, snapshot: StoredSnapshot, changes: Changes) -> None:
    """Raises SchemaDrift for a snapshot that neither adds rows nor rewrites files."""
    kind = snapshot.document["commitKind"]
    if kind != COMPACT and (kind != APPEND or changes.removed):
        difference = f"has snapshot {snapshot.snapshot_id} of another tiering service, whose commit kind is {kind} and not just {APPEND}"
        raise drift(table.path, None, difference)


def _added(
    table: TableInfo, loaded: LoadedTable, manifests: Manifests, changes: Changes, ids: Mapping[tuple[PartitionValue, ...], int]
) -> dict[BucketKey, AddedRows]:
    rows: dict[BucketKey, AddedRows] = {}
    for entries, is_data in ((changes.added, True), (changes.changelog, False)):
        for entry in entries:
            values = tuple(entry.partition.values)
            if table.partition_keys and values not in ids:
                continue  # a file of a dropped partition
            for bucket_id, piece in _pieces(table, loaded.storage, loaded.root / manifests.file_path(entry)):
                key = BucketKey(ids[values] if table.partition_keys else None, bucket_id)
                added = piece if is_data else replace(piece, records=0)
                rows[key] = rows[key].with_more(added) if key in rows else added
    return rows


def partition_ids(table: TableInfo, loaded: LoadedTable, partitions: Mapping[str, int]) -> dict[tuple[PartitionValue, ...], int]:
    """Returns the partition ids by the values of the partition columns, in the form in which files have them."""
    keys, columns = loaded.schema.table.partition_keys, loaded.schema.columns
    return {partition_values(keys, columns, partition_texts(table, name)): number for name, number in partitions.items()}


def _pieces(table: TableInfo, storage: Storage, path: PurePath) -> _Pieces:
    pieces = _pieces_of(storage, path) if path.suffix == ".parquet" else None
    if pieces is None:
        difference = f"has the file {path.name} of another tiering service, which is not Parquet or has no offsets"
        raise drift(table.path, None, difference)
    return pieces


@lru_cache(_REMEMBERED_FILES)
def _pieces_of(storage: Storage, path: PurePath) -> _Pieces | None:
    """Returns the pieces of a file; None for a file without offsets. Cached, because a file never changes and its name is never reused."""
    with open_data_file(storage, path) as file:
        if not set(SYSTEM_COLUMNS) <= set(file.schema_arrow.names):
            return None
        buckets, offsets, times = (_bounds(file, name) for name in SYSTEM_COLUMNS)
        if buckets is not None and offsets is not None and times is not None and buckets[0] == buckets[1]:
            return ((buckets[0], AddedRows(offsets[0], offsets[1] + 1, file.metadata.num_rows, times[1])),)
        return tuple(_read_pieces(file))


def _bounds(file: pq.ParquetFile, column: str) -> tuple[int, int] | None:
    """Returns lowest and highest value; None unless each row group has these statistics and no nulls."""
    metadata = file.metadata
    position = next(number for number in range(metadata.num_columns) if metadata.schema.column(number).path == column)
    lows: list[int] = []
    highs: list[int] = []
    for group in range(metadata.num_row_groups):
        statistics: Any = metadata.row_group(group).column(position).statistics
        if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
            return None
        lows.append(_number(statistics.min))
        highs.append(_number(statistics.max))
    return (min(lows), max(highs)) if lows else None


def _number(value: Any) -> int:
    """Returns a statistic as a whole number; a time becomes milliseconds since 1970-01-01 UTC."""
    if not isinstance(value, datetime):
        return int(value)
    return to_milliseconds(value if value.tzinfo is not None else value.replace(tzinfo=UTC))


def _read_pieces(file: pq.ParquetFile) -> Iterator[tuple[int, AddedRows]]:
    """Yields the pieces of a file from its rows. Raises ValueError for a row without bucket, offset or commit time."""
    for batch in file.iter_batches(_BATCH_ROWS, columns=list(SYSTEM_COLUMNS), use_threads=False):
        columns = [batch.column(name) for name in SYSTEM_COLUMNS]
        if any(column.null_count for column in columns):
            raise ValueError("a row has no bucket, no offset, or no commit time")
        buckets, offsets, times = columns[0].to_numpy(), columns[1].to_numpy(), commit_times_ms(columns[2])
        for bucket_id in np.unique(buckets):
            bucket_offsets, moments = offsets[buckets == bucket_id], times[buckets == bucket_id]
            yield (
                int(bucket_id),
                AddedRows(int(bucket_offsets.min()), int(bucket_offsets.max()) + 1, len(bucket_offsets), int(moments.max())),
            )


def foreign_offsets(view: LakeView, snapshot_id: int) -> ForeignOffsets:
    """Returns the offsets that Fluss's tiering stored with its snapshot. Implements `LakeMaintenance.foreign_offsets`.

    A file that is not on a path of this machine counts as unreadable.
    """
    loaded = cast(LoadedTable, view.handle)
    snapshot = loaded.snapshot(snapshot_id)
    name = None if snapshot is None else snapshot.properties.get(FLUSS_OFFSETS_KEY)
    path = None if name is None else Path("/" + name.removeprefix("file:").lstrip("/"))
    if name is None or path is None or not is_offsets_path(name):
        raise unreadable(view, snapshot_id, f"it names no file of offsets: {name!r}")
    if not name.startswith(("/", "file:")):
        raise unreadable(view, snapshot_id, f"its file {name} is not on a path of this machine")
    with lake_errors(f"read the offsets {name}", table_path=view.path):
        if not path.is_file():
            raise unreadable(view, snapshot_id, f"its file {name} does not exist; Fluss keeps only the newest one")
        with path.open("rb") as file:
            text = file.read(OFFSETS_LIMIT_BYTES + 1)
    if len(text) > OFFSETS_LIMIT_BYTES:
        raise unreadable(view, snapshot_id, f"its file {name} has more than {OFFSETS_LIMIT_BYTES} bytes")
    return parse_offsets(view, snapshot_id, text)
