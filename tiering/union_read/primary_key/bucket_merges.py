"""Plans the readers of a primary-key table: the lake rows and the changes of each bucket meet in one merge (`key_merge`).

A bucket that the lake does not have yet begins with its KV snapshot, as in a round. Buckets without changes need no merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tiering.cluster.base import SplitReader
from tiering.lake.file_lists import BucketRows
from tiering.model.reading.scans import ReadPart
from tiering.model.tables import BucketKey, TableInfo
from tiering.union_read.primary_key.key_merge import MergedRows, SnapshotRows, Yields
from tiering.union_read.readers import RowReader
from tiering.union_read.tasks import TASK_BYTES

LAKE_SHARE = 4
"""A task reads at least this multiple of its changes' bytes in lake rows, so that the tasks of one bucket do not repeat much work."""


@dataclass(frozen=True)
class BucketChanges:
    """The changes of one bucket. `log` None: the log has none. `snapshot`: the KV snapshot with which the bucket begins."""

    bucket: BucketKey
    log: SplitReader | None
    log_bytes: int
    snapshot: SplitReader | None = None
    snapshot_bytes: int = 0


@dataclass
class _Merge:
    """The inputs of one merge."""

    changes: list[SplitReader] = field(default_factory=list)
    change_bytes: int = 0
    base: list[RowReader] = field(default_factory=list)

    def add(self, bucket: BucketChanges, *, has_lake_rows: bool) -> None:
        """Adds the changes of a bucket. If the lake has rows, those of a former partition among them, the KV snapshot replaces them by
        key."""
        if bucket.snapshot is not None and has_lake_rows:
            self.changes.append(bucket.snapshot)
            self.change_bytes += bucket.snapshot_bytes
        elif bucket.snapshot is not None:
            self.base.append(SnapshotRows(bucket.snapshot, bucket.snapshot_bytes))
        if bucket.log is not None:
            self.changes.append(bucket.log)
            self.change_bytes += bucket.log_bytes


def merged_readers(table: TableInfo, lake: Sequence[BucketRows], buckets: Sequence[BucketChanges], part: ReadPart) -> list[RowReader]:
    """Returns the readers of a scan. `lake`: all lake rows for ROWS; otherwise it is not read."""
    by_key = {changes.bucket: changes for changes in buckets}
    readers: list[RowReader] = []
    remaining = dict(by_key)
    for rows in lake if part is ReadPart.ROWS else ():
        if not rows.buckets:
            readers.extend(rows.readers)
            continue
        merge = _Merge(base=[*rows.readers])
        for bucket in sorted(rows.buckets, key=BucketKey.sort_key):
            if bucket in remaining:
                merge.add(remaining.pop(bucket), has_lake_rows=True)
        readers.extend(_cut(table, merge, part))
    for changes in remaining.values():
        merge = _Merge()
        merge.add(changes, has_lake_rows=part is ReadPart.CHANGED_KEYS)
        readers.extend(_cut(table, merge, part))
    return readers


def _cut(table: TableInfo, merge: _Merge, part: ReadPart) -> Iterator[RowReader]:
    """Yields the readers of a merge, several if it has much more base rows than changes. Each reads the changes; the first yields them."""
    base = merge.base
    chunks = list(_chunks(base, max(TASK_BYTES, LAKE_SHARE * merge.change_bytes))) or [[]]
    for number, chunk in enumerate(chunks):
        if not merge.changes:
            yield from chunk
            continue
        size = merge.change_bytes + sum(reader.size_bytes for reader in chunk)
        yields = Yields.NOTHING if number else Yields.KEYS if part is ReadPart.CHANGED_KEYS else Yields.ROWS
        yield MergedRows(table.primary_key, table.schema, tuple(merge.changes), tuple(chunk), size, yields)


def _chunks(readers: Sequence[RowReader], chunk_bytes: int) -> Iterator[list[RowReader]]:
    chunk: list[RowReader] = []
    size = 0
    for reader in readers:
        if chunk and size + reader.size_bytes > chunk_bytes:
            yield chunk
            chunk, size = [], 0
        chunk.append(reader)
        size += reader.size_bytes
    if chunk:
        yield chunk
