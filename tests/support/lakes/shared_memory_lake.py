"""The lake in memory with another tiering service's snapshots, rows of primary-key tables, and what a user does to it.

Rows of a log table are ranges `(bucket, start, stop, file)`, those of a primary-key table `(bucket, key, offset, file)`.

The buckets are those of the partitions that wrote the rows, which only this double knows. What it tells of a partitioned table goes by the
partition's name, as in a real lake: rows of a former partition look like those of the living one, but for their commit times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from support.clusters.shared_cluster import PARTITION_NAME, Record, SharedMemoryCluster, commit_time
from support.lakes.memory_lake import BEGUN, MemoryTable, Range, Request
from support.lakes.swept_lake import SweptMemoryLake
from tiering.errors import CannotReconcile
from tiering.instants import to_milliseconds
from tiering.lake.base import FLUSS_COMMIT_USER, LakeView, WriteResult
from tiering.lake.foreign import AddedRows, ForeignSnapshot
from tiering.lake.log_starts import NO_STARTS, LogStarts
from tiering.lake.maintenance import ForeignOffsets, LakeSurvey, Removal
from tiering.lake.marker import Marker
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.model.tables import SNAPSHOT_OFFSET, BucketKey, ChangeType, Offsets, TableInfo, TablePath, TableType

GONE = (ChangeType.DELETE, ChangeType.UPDATE_BEFORE)
SNAPSHOT_TIME_MS = -1
"""The commit time of rows that come from a KV snapshot: they have none."""


def time_ms(bucket: BucketKey, offset: int) -> int:
    """When a record was committed."""
    return to_milliseconds(commit_time(bucket, offset))


class SharedMemoryLake(SweptMemoryLake):
    """A `Lake`, a `LakeMaintenance`, a `ForeignCommits` and a `RowRemoval` of the one table of its cluster."""

    ids_come_again = False

    def __init__(self, cluster: SharedMemoryCluster) -> None:
        super().__init__()
        self._cluster = cluster
        self._added: dict[int, ForeignSnapshot] = {}
        self.offsets_path: dict[int, str] = {}
        self._removals: dict[str, Removal] = {}

    @property
    def table(self) -> MemoryTable:
        return self.tables[self._cluster.shared_table.path]

    @property
    def head(self) -> int | None:
        """The table's; None also while a user has given the table another name."""
        table = self.tables.get(self._cluster.shared_table.path)
        return None if table is None else table.head

    @property
    def is_log(self) -> bool:
        return self._cluster.shared_table.table_type is TableType.LOG

    def receive(self, request: Request) -> bool:
        before, marker = self.head, request.marker
        rows = () if before is None else self.table.rows[before]
        if not super().receive(request):
            return False
        head = self.table.head
        assert head is not None
        self._as_tiering(head, marker)
        removals = [(self._removals[file], file) for *_, file in request.ranges if file in self._removals]
        if removals:
            self.table.rows[head] = self._removed(rows, *removals[0])
        elif not self.is_log:
            self.table.rows[head] = self._with_changes(rows, request.ranges)
        return True

    def remove_rows(self, table: TableInfo, view: LakeView, round_id: str, removal: Removal) -> Sequence[WriteResult]:
        """All of it travels in the first result; the others only say that their bucket loses rows."""
        file = self.write(f"lakeward-{round_id}-removal.parquet")
        self._removals[file] = removal
        buckets = removal.emptied or removal.places
        return [WriteResult(bucket, 0, 0, 0, 1, 1, file.encode()) for bucket in sorted(buckets, key=BucketKey.sort_key)]

    def _removed(self, rows: Iterable[Range], removal: Removal, file: str) -> tuple[Range, ...]:
        """By the partition's name, as a real lake."""
        if removal.emptied:
            emptied = {self._named(bucket) for bucket in removal.emptied}
            return tuple(row for row in rows if self._named(row[0]) not in emptied)
        places = {self._named(bucket): bucket for bucket in removal.places}
        stay: list[tuple[BucketKey, int]] = []
        kept: set[tuple[int, int]] = set()
        for bucket, start, stop, _ in rows:
            living = places.get(self._named(bucket))
            for offset in range(start, stop):
                begin = None if living is None else removal.begins.get(living)
                is_own = living is not None and (begin is None or bool(begin.own(np.array([time_ms(bucket, offset)]))[0]))
                if living is None or not is_own:
                    stay.append((bucket, offset))
                elif (living.bucket_id, offset) not in kept and offset < removal.ceilings.get(living, offset + 1):
                    kept.add((living.bucket_id, offset))
                    stay.append((bucket, offset))
        return tuple((bucket, offset, offset + 1, file) for bucket, offset in sorted(stay, key=lambda row: (row[0].sort_key(), row[1])))

    @staticmethod
    def _named(bucket: BucketKey) -> int:
        """Returns the lake's name of a bucket: all partitions have one name."""
        return bucket.bucket_id

    def _as_tiering(self, snapshot_id: int, marker: Marker) -> None:
        """Marks a commit as the Fluss cluster does: its own commit user, and a prepared path that is never registered."""
        self.table.snapshots[snapshot_id] = replace(self.table.snapshots[snapshot_id], commit_user=FLUSS_COMMIT_USER)
        ends = {bucket: tiered.tiered for bucket, tiered in marker.buckets.items()}
        self.offsets_path[snapshot_id] = self._cluster.prepare(ends, ignore_previous=True)

    def _with_changes(self, rows: Iterable[Range], ranges: Iterable[Range]) -> tuple[Range, ...]:
        """Our fold: every live row of a changed key goes, its last change comes."""
        left = list(rows)
        for bucket, start, stop, file in ranges:
            replaces = "-replacing" in file  # it begins with a KV snapshot, which holds all that was before
            changes = dict(self._changes(bucket, 0 if replaces else start, stop))
            if BEGUN in file:
                changes = {**self._snapshot_of(bucket, start), **changes}
            left = [row for row in left if self._named(row[0]) != self._named(bucket) or (row[1] not in changes and not replaces)]
            left += [(bucket, key, offset, file) for key, (offset, kind) in changes.items() if kind not in GONE]
        return tuple(left)

    def _changes(self, bucket: BucketKey, start: int, stop: int) -> Iterable[tuple[int, tuple[int, ChangeType]]]:
        """By key its last change in a part of the log; before-images do not count."""
        for offset, record in enumerate(self._cluster.records[bucket][start:stop], start):
            if record is not None and record[0] is not ChangeType.UPDATE_BEFORE:
                yield record[1], (offset, record[0])

    def foreign_append(self, starts: Offsets, ends: Offsets, path: str, begun: Collection[BucketKey] = ()) -> int:
        """Commits `[starts, ends)` as Flink's writers and its committer do, on the present head. Returns the snapshot's id.

        `begun`: buckets of which a KV snapshot as of the end is read, and no log.
        """
        table = self.table
        rows = list(() if table.head is None else table.rows[table.head])
        file = self.write(f"flink-{self.new_id()}.parquet")
        added: dict[BucketKey, AddedRows] = {}
        for bucket, end in ends.items():
            if bucket in begun:
                if number := self._snapshot_rows(bucket, end, file, rows):
                    added[bucket] = AddedRows(SNAPSHOT_OFFSET, SNAPSHOT_OFFSET + 1, number, SNAPSHOT_TIME_MS)
                continue
            start = starts.get(bucket, 0)
            part = list(enumerate(self._cluster.records[bucket][start:end], start))
            offsets = self._log_rows(part, bucket, file, rows) if self.is_log else self._keyed_rows(part, bucket, file, rows)
            if offsets:
                first, last = min(offsets), max(offsets)
                added[bucket] = AddedRows(first, last + 1, len(offsets), time_ms(bucket, last))
        return self._foreign(tuple(rows), path, ForeignSnapshot(0, added))

    @staticmethod
    def _log_rows(part: list[tuple[int, Record]], bucket: BucketKey, file: str, rows: list[Range]) -> list[int]:
        offsets = [offset for offset, record in part if record is not None]
        if offsets:
            rows.append((bucket, offsets[0], offsets[-1] + 1, file))
        return offsets

    @staticmethod
    def _keyed_rows(part: list[tuple[int, Record]], bucket: BucketKey, file: str, rows: list[Range]) -> list[int]:
        """A key whose first record is an insert gets no equality delete, one that was written in the round a position delete."""
        written: dict[int, int] = {}
        offsets: list[int] = []
        for offset, record in part:
            if record is None:
                continue
            kind, key = record
            if kind in GONE:
                if key not in written:
                    rows[:] = [row for row in rows if (row[0].bucket_id, row[1]) != (bucket.bucket_id, key)]
                    offsets.append(offset)
                written.pop(key, None)
            else:
                written[key] = offset
                offsets.append(offset)
        rows += [(bucket, key, offset, file) for key, offset in written.items()]
        return offsets

    def _snapshot_rows(self, bucket: BucketKey, end: int, file: str, rows: list[Range]) -> int:
        """Adds the rows of a KV snapshot, and returns their number. Flink takes them for new ones, and deletes none that stand there."""
        living = self._snapshot_of(bucket, end)
        rows += [(bucket, key, offset, file) for key, (offset, _) in living.items()]
        return len(living)

    def _snapshot_of(self, bucket: BucketKey, end: int) -> dict[int, tuple[int, ChangeType]]:
        """The rows of a KV snapshot by key. It does not tell which keys were deleted."""
        return {key: change for key, change in dict(self._changes(bucket, 0, end)).items() if change[1] not in GONE}

    def foreign_compaction(self, snapshot_id: int) -> int:
        """Flink's `replace` after its append: the same properties, no new row."""
        assert self.table.head is not None
        file = self.write(f"flink-{self.new_id()}.parquet")
        rows = tuple((bucket, first, second, file) for bucket, first, second, _ in self.table.rows[self.table.head])
        return self._foreign(rows, self.offsets_path[snapshot_id], ForeignSnapshot(0, is_rewrite=True))

    def _foreign(self, rows: tuple[Range, ...], path: str, contents: ForeignSnapshot) -> int:
        snapshot_id = self._add(self.table, rows, None, ())
        self.table.snapshots[snapshot_id] = replace(self.table.snapshots[snapshot_id], commit_user=FLUSS_COMMIT_USER)
        self.offsets_path[snapshot_id] = path
        self._added[snapshot_id] = replace(contents, snapshot_id=snapshot_id)
        return snapshot_id

    def roll_back(self, snapshot_id: int) -> None:
        """A user sets the main branch on a former snapshot."""
        self.table.head = snapshot_id

    def expire_all_but_head(self, *, forgets: bool = True) -> None:
        """A user expires every snapshot that no reference keeps. `forgets`: see `MemoryTable.expire_all_but`."""
        self.table.expire_all_but({self.table.head, self.table.tag}, forgets=forgets)

    def foreign_snapshot(self, table: TableInfo, view: LakeView, snapshot_id: int, partitions: Mapping[str, int]) -> ForeignSnapshot:
        offsets, snapshot = self._cluster.files.get(self.offsets_path[snapshot_id], {}), self._added[snapshot_id]
        added = {living: rows for bucket, rows in snapshot.added.items() if (living := self._living(bucket, partitions)) is not None}
        return replace(snapshot, added=added, offsets=dict(offsets), has_dropped_rows=len(added) < len(snapshot.added))

    def _living(self, bucket: BucketKey, partitions: Mapping[str, int]) -> BucketKey | None:
        """The bucket that rows of a bucket are taken for, by their partition's name; None: there is no partition of that name."""
        if bucket.partition_id is None:
            return bucket
        return None if PARTITION_NAME not in partitions else BucketKey(partitions[PARTITION_NAME], bucket.bucket_id)

    def foreign_offsets(self, view: LakeView, snapshot_id: int) -> ForeignOffsets:
        offsets = self._cluster.files.get(self.offsets_path[snapshot_id])
        if offsets is None:
            raise CannotReconcile(f"the file of snapshot {snapshot_id} is gone")
        places = {(bucket.partition_id, bucket.bucket_id): end for bucket, end in offsets.items()}
        return ForeignOffsets(self._cluster.shared_table.table_id, places)

    def survey(self, path: TablePath) -> LakeSurvey | None:
        view = self.view(path)
        return None if view is None else LakeSurvey(view, view.marker, self._head_marker(view))

    def _head_marker(self, view: LakeView) -> Marker | None:
        newest = next((snapshot.snapshot_id for snapshot in view.line() if snapshot.snapshot_id in self.table.markers), None)
        return self.table.markers[newest] if newest in view.snapshots else None

    def row_offsets(self, table: TableInfo, view: LakeView, partitions: Mapping[str, int], begins: LogStarts = NO_STARTS) -> RowOffsets:
        held = RowOffsets()
        for bucket, first, stop, _ in () if view.head is None else self.table.rows[view.head]:
            living = self._living(bucket, partitions)
            if living is None:
                continue
            place = (None if living.partition_id is None else PARTITION_NAME, living.bucket_id)
            if not self.is_log:
                held.add_place(place)
            elif (begin := begins.get(living)) is None:
                held.add(place, np.arange(first, stop))
            else:
                times = np.array([time_ms(bucket, offset) for offset in range(first, stop)])
                held.add_with_times(place, np.arange(first, stop), times, begin)
        return held

    def row_counts(self) -> Counter[tuple[BucketKey, int]]:
        """How often each bucket of a living partition holds each offset of a log table that has a row, or each key."""
        counts: Counter[tuple[BucketKey, int]] = Counter()
        for bucket, first, second, _ in self.rows(self._cluster.shared_table.path):
            if bucket not in self._cluster.living:
                continue
            if self.is_log:
                records = self._cluster.records[bucket]
                counts.update((bucket, offset) for offset in range(first, second) if offset < len(records) and records[offset] is not None)
            else:
                counts[bucket, first] += 1
        return counts

    def archived(self) -> dict[tuple[BucketKey, int], int]:
        """The rows of former partitions that a reader sees, in the form of `truth`."""
        rows: dict[tuple[BucketKey, int], int] = {}
        for bucket, first, second, _ in self.rows(self._cluster.shared_table.path):
            if bucket not in self._cluster.living:
                records = self._cluster.records[bucket]
                if self.is_log:
                    rows |= {(bucket, offset): offset for offset in range(first, second) if records[offset] is not None}
                else:
                    rows[bucket, first] = max(second, rows.get((bucket, first), second))
        return rows

    def truth(self) -> dict[tuple[BucketKey, int], int]:
        """Returns the rows that a reader should see once all is tiered: the offset by log offset, or by key."""
        rows: dict[tuple[BucketKey, int], int] = {}
        for bucket in self._cluster.living:
            records = self._cluster.records[bucket]
            if self.is_log:
                rows |= {(bucket, offset): offset for offset, record in enumerate(records) if record is not None}
            else:
                for key, (offset, kind) in dict(self._changes(bucket, 0, len(records))).items():
                    if kind is not ChangeType.DELETE:
                        rows[bucket, key] = offset
        return rows

    def held(self) -> dict[tuple[BucketKey, int], int]:
        """Returns the rows that a reader sees, in the form of `truth`."""
        if self.is_log:
            return {(bucket, offset): offset for bucket, offset in self.row_counts()}
        rows = self.rows(self._cluster.shared_table.path)
        return {(bucket, key): offset for bucket, key, offset, _ in rows if bucket in self._cluster.living}
