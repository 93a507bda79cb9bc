"""The shared lake in memory with a clean layout: rows tell no offsets, so what another tiering service added is summed.

A row of its tables is its key and a value, which no other change has, so that no two changes leave the same row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from support.clusters.shared_cluster import PARTITION_NAME, Record, SharedMemoryCluster, value_of
from support.lakes.shared_memory_lake import GONE, SharedMemoryLake
from tiering.errors import SchemaDrift
from tiering.lake.base import LakeView
from tiering.lake.foreign import CleanRows, ForeignSnapshot
from tiering.lake.layouts import Layout
from tiering.lake.log_starts import NO_STARTS, LogStarts
from tiering.lake.proof.change_sums import ChangeSums, RowSum, sum_of_hashes
from tiering.lake.proof.row_checksum import row_hashes
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.model.tables import BucketKey, ChangeType, Offsets, TableInfo

Part = tuple[BucketKey, list[tuple[int, Record]]]
"""A bucket, and the records of it that one round wrote, by offset."""
CLEAN_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("value", pa.int64())])


class CleanMemoryLake(SharedMemoryLake):
    """`clean_rows` sums what Flink's writer made of its ranges."""

    layout = Layout.CLEAN

    def __init__(self, cluster: SharedMemoryCluster) -> None:
        super().__init__(cluster)
        self._parts: dict[int, dict[BucketKey, list[tuple[int, Record]]]] = {}

    def foreign_append(self, starts: Offsets, ends: Offsets, path: str, begun: Collection[BucketKey] = ()) -> int:
        snapshot_id = super().foreign_append(starts, ends, path, begun)
        self._parts[snapshot_id] = {
            bucket: self._snapshot(bucket, end) if bucket in begun else self._log(bucket, starts.get(bucket, 0), end)
            for bucket, end in ends.items()
        }
        return snapshot_id

    def _log(self, bucket: BucketKey, start: int, end: int) -> list[tuple[int, Record]]:
        return list(enumerate(self._cluster.records[bucket][start:end], start))

    def _snapshot(self, bucket: BucketKey, end: int) -> list[tuple[int, Record]]:
        """Each living key as one insert of its last value."""
        return [(offset, (ChangeType.INSERT, key)) for key, (offset, _) in self._snapshot_of(bucket, end).items()]

    def foreign_snapshot(self, table: TableInfo, view: LakeView, snapshot_id: int, partitions: Mapping[str, int]) -> ForeignSnapshot:
        snapshot = super().foreign_snapshot(table, view, snapshot_id, partitions)
        members = frozenset(bucket.partition_id for bucket in snapshot.added if bucket.partition_id is not None)
        has_rows = bool(snapshot.added) or snapshot.has_dropped_rows
        return replace(snapshot, added={}, has_clean_rows=has_rows, clean_partitions=members)

    def clean_rows(
        self, table: TableInfo, view: LakeView, snapshot_ids: Sequence[int], partitions: Mapping[str, int]
    ) -> Sequence[CleanRows]:
        scopes: dict[BucketKey, list[Part]] = {}
        for number in snapshot_ids:
            for bucket, records in self._parts[number].items():
                if (living := self._living(bucket, partitions)) is not None:
                    scopes.setdefault(living, []).append((bucket, records))
        ordered = sorted(scopes, key=BucketKey.sort_key)
        return [CleanRows(bucket.partition_id, bucket.bucket_id, self._sums(scopes[bucket])) for bucket in ordered]

    def _sums(self, rounds: list[Part]) -> ChangeSums:
        written: list[tuple[int, int]] = []
        deleted: list[int] = []
        living: list[tuple[int, int]] = []
        for bucket, part in rounds:
            own: dict[int, int] = {}
            by_key: set[int] = set()
            for offset, record in part:
                if record is None:
                    continue
                kind, key = record
                if kind in GONE:
                    deleted.append(key)
                    if own.pop(key, None) is None:
                        by_key.add(key)
                else:
                    written.append((key, value_of(bucket, offset)))
                    if key in own and not self.is_log:
                        deleted.append(key)  # by position, for the log has no before-image
                    own[key] = value_of(bucket, offset)
            living = [row for row in living if row[0] not in by_key] + list(own.items())
        keys = pa.record_batch({"id": pa.array(deleted, pa.int64())})
        return ChangeSums(_rows(written), sum_of_hashes(row_hashes(keys)), _rows(living), gone=None)

    def row_offsets(self, table: TableInfo, view: LakeView, partitions: Mapping[str, int], begins: LogStarts = NO_STARTS) -> RowOffsets:
        """Footers tell them, and of which partition they are, which files of others do not."""
        rows = [row for row in self.rows(table.path) if self._living(row[0], partitions) is not None]
        foreign = [file for *_, file in rows if not file.startswith("lakeward-")]
        if foreign and self.is_log:
            raise SchemaDrift(f"{foreign[0]} tells no offsets", hint="")
        held = RowOffsets()
        for bucket, first, stop, _ in rows:
            place = (None if bucket.partition_id is None else PARTITION_NAME, bucket.bucket_id)
            if not self.is_log:
                held.add_place(place)
            elif bucket == self._living(bucket, partitions):
                held.add(place, np.arange(first, stop))
        return held


def _rows(rows: list[tuple[int, int]]) -> RowSum:
    columns = {"id": [key for key, _ in rows], "value": [offset for _, offset in rows]}
    return sum_of_hashes(row_hashes(pa.RecordBatch.from_pydict(columns, schema=CLEAN_SCHEMA)))
