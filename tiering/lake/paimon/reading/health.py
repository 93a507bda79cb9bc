"""Measures a Paimon table from its metadata: its health, its rows by partition, and its size, which snapshots do not contain.

A table that Lakeward tiers to has no deletion vectors (`schema.allowed_options`), so it has no delete files. Rows of a primary-key table
are replaced while it is read: the metadata gives the number of dead rows only if a bucket has a single sorted run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, cast

from pypaimon.common.memory_size import MemorySize

from tiering.errors import LakeUnavailable
from tiering.lake.base import LakeView
from tiering.lake.health.measure import FilePlace, LakeMeasure, file_totals
from tiering.lake.paimon.commit.manifests import Manifests
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.loading import LoadedTable
from tiering.lake.paimon.schema.layout import BUCKET, UNAWARE
from tiering.lake.paimon.storage.base import MANIFEST, SNAPSHOT
from tiering.lake.rules.upkeep.small_files import reachable_bytes
from tiering.model.tables import PARTITION_SEPARATOR, TableInfo

INDEX = "index"
TARGET_FILE_SIZE = "target-file-size"
LOG_TARGET_BYTES = 256 << 20
PRIMARY_KEY_TARGET_BYTES = 128 << 20
"""Defaults of TARGET_FILE_SIZE (Paimon's `CoreOptions.targetFileSize`)."""


def measure(table: TableInfo, view: LakeView) -> LakeMeasure:
    """Measures the table. Implements `MeasuredLake.measure`."""
    loaded = cast(LoadedTable, view.handle)
    with lake_errors(f"read the metadata of {view.path}", table_path=view.path):
        return _measure(table, loaded)


def _measure(table: TableInfo, loaded: LoadedTable) -> LakeMeasure:
    target, head = target_file_bytes(table, loaded), loaded.head
    reachable = reachable_bytes(target, table.freshness_ms)
    manifests = Manifests(loaded)
    entries: dict[tuple[object, ...], list[Any]] = {}
    for entry in [] if head is None else manifests.live_entries(head, drop_stats=True):
        entries.setdefault((int(entry.bucket), *entry.partition.values), []).append(entry.file)
    buckets = table.bucket_count if int(loaded.schema.options.get(BUCKET, UNAWARE)) == UNAWARE else 1
    count = _keyed_place if loaded.schema.table.primary_keys else _log_place
    folders = (loaded.root / SNAPSHOT, loaded.root / MANIFEST, loaded.root / INDEX)
    sizes = [file.size_bytes for folder in folders for file in loaded.storage.files_below(folder)]
    return LakeMeasure(
        files=file_totals([count(FilePlace(reachable, buckets), files) for files in entries.values()], target),
        snapshots=len(loaded.chain),
        oldest_snapshot_time=loaded.chain[0].described.committed_at if loaded.chain else None,
        manifests=0 if head is None else manifests.count(head),
        metadata_files=len(sizes),
        metadata_bytes=sum(sizes),
        columns=loaded.schema.columns,
    )


def target_file_bytes(table: TableInfo, loaded: LoadedTable) -> int:
    """Returns the size at which a writer ends a data file, from the option of the source table, or otherwise of the lake table."""
    if table.target_file_bytes is not None:
        return table.target_file_bytes
    text = loaded.schema.options.get(TARGET_FILE_SIZE)
    if text is not None:
        return max(1, int(MemorySize.parse(text).get_bytes()))
    return PRIMARY_KEY_TARGET_BYTES if loaded.schema.table.primary_keys else LOG_TARGET_BYTES


def _log_place(place: FilePlace, files: list[Any]) -> FilePlace:
    for file in files:
        place.add_data_file(int(file.file_size), int(file.row_count))
    return place


def _keyed_place(place: FilePlace, files: list[Any]) -> FilePlace:
    """Adds the files of a bucket with keys. Each file of level 0 is a separate sorted run; the files of another level are one run."""
    for file in files:
        place.add_data_file(int(file.file_size), int(file.row_count), is_merged_by_readers=file.level == 0)
    runs = sum(file.level == 0 for file in files) + len({file.level for file in files} - {0})
    tombstones = [file.delete_row_count for file in files]
    place.dead_rows = sum(map(int, tombstones)) if runs == 1 and None not in tombstones else None
    return place


def partition_rows(table: TableInfo, view: LakeView) -> Mapping[str | None, int]:
    """Returns the number of rows by partition name at the head, replaced and deleted rows included; None = rows without a partition
    name. Implements `PartitionRows.partition_rows`.
    """
    rows, loaded = Counter[str | None](), cast(LoadedTable, view.handle)
    keys = list(loaded.schema.table.partition_keys)
    with lake_errors(f"read the manifests of {view.path}", table_path=view.path):
        entries = [] if loaded.head is None else Manifests(loaded).live_entries(loaded.head)
    for entry in entries:
        values = dict(zip(keys, entry.partition.values, strict=True))
        has_name = all(values.get(key) is not None for key in table.partition_keys)
        rows[PARTITION_SEPARATOR.join(str(values[key]) for key in table.partition_keys) if has_name else None] += int(entry.file.row_count)
    return rows


@dataclass(frozen=True)
class TableSize:
    """`files` and `size_bytes` of a view; None = unknown."""

    files: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True)
class _SnapshotSize:
    """The size at one snapshot, identified by id and content digest, because Paimon reuses ids after a roll-back."""

    snapshot_id: int
    digest: str
    files: int
    size_bytes: int


class SizeReader:
    """Adds what new snapshots added to a table's size when it was last read. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sizes: dict[str, _SnapshotSize] = {}

    def size_of(self, loaded: LoadedTable) -> TableSize:
        """Returns the size at the head. It is unknown if a manifest cannot be read: that is an error only for callers that need the
        manifest's content.
        """
        if loaded.head is None:
            return TableSize(0, 0)
        with self._lock:
            known_size = self._sizes.get(loaded.uuid)
        try:
            with lake_errors(f"read the manifests of {loaded.path}", table_path=loaded.path):
                size = _size(loaded, known_size)
        except LakeUnavailable:
            return TableSize()
        with self._lock:
            self._sizes[loaded.uuid] = size
        return TableSize(size.files, size.size_bytes)


def _size(loaded: LoadedTable, known_size: _SnapshotSize | None) -> _SnapshotSize:
    head = loaded.chain[-1]
    base = None if known_size is None else loaded.snapshot(known_size.snapshot_id)
    if known_size is None or base is None or base.digest != known_size.digest:
        return _SnapshotSize(head.snapshot_id, head.digest, *Manifests(loaded).added_size(head, with_base=True))
    if base is head:
        return known_size
    manifests = Manifests(loaded)
    newer = [manifests.added_size(snapshot, with_base=False) for snapshot in loaded.chain if snapshot.snapshot_id > base.snapshot_id]
    files, size_bytes = known_size.files + sum(files for files, _ in newer), known_size.size_bytes + sum(size for _, size in newer)
    return _SnapshotSize(head.snapshot_id, head.digest, files, size_bytes)
