"""Commits of Fluss's own tiering to a real lake table, without a Fluss: the source is a `LakeWorld`'s embedded cluster.

That cluster says that it is shared with another service.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from support.flink.flink_files import FlinkFiles
from support.flink.flink_paimon_files import FlinkPaimonFiles
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import local
from tiering.lake.base import FLUSS_COMMIT_USER
from tiering.model.assignments import ServiceMode
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, TableInfo


def share(world: LakeWorld) -> None:
    """Shares the cluster of the world with another tiering service from now on."""
    world.storage.service_mode = ServiceMode.SHARED  # type: ignore[attr-defined]


class FlinkOnIceberg:
    """One round of the other service."""

    def __init__(self, world: LakeWorld, table: TableInfo) -> None:
        self._world, self._table = world, table
        self.starts: dict[BucketKey, int] = {}
        self.ends: dict[BucketKey, int] = {}
        self.spoil: Callable[[pa.Table], pa.Table] = lambda rows: rows
        """Is done to the changes of each bucket before they are written."""
        self.offsets_file = Path()
        self.stated: dict[BucketKey, int] = {}
        """Flink's own ends, over those that the cluster had at the append."""
        self._read: dict[BucketKey, pa.Table] = {}
        """The changes of a partitioned table, which are read with the plan: the partition may be dropped before they are written."""

    def plan(self, stop: int | None = None) -> FlinkOnIceberg:
        recorded = self._world.storage.lake_snapshot(self._table)
        self.starts = {} if recorded is None else dict(recorded.offsets)
        logs = self._world.storage.offsets(self._table)
        self.names = {partition.partition_id: partition.partition_name for partition in self._world.storage.partitions(self._table)}
        self.ends = {bucket: log.log_end if stop is None else min(stop, log.log_end) for bucket, log in logs.items()}
        if self._table.partition_keys:
            self._read = {bucket: self._read_log(bucket) for bucket in self.ends}
        return self

    def append(self) -> FlinkOnIceberg:
        """On whatever the head is by now."""
        recorded = self._world.storage.lake_snapshot(self._table)
        self.stated = {**({} if recorded is None else recorded.offsets), **self.ends}
        self._commit({bucket: self.spoil(self._changes(bucket)) for bucket in self.ends}, self._write_offsets())
        return self

    def _commit(self, changes: Mapping[BucketKey, pa.Table], offsets_path: str) -> None:
        properties = {"commit-user": FLUSS_COMMIT_USER, "fluss-offsets": offsets_path}
        loaded, view = self._world.iceberg(self._table), self._world.view(self._table)
        FlinkFiles(self._table, loaded, view, self.names).commit(changes, properties)

    def tell(self) -> FlinkOnIceberg:
        head = self._world.view(self._table).head
        assert head is not None
        self._world.storage.rewind_lake_snapshot(self._table, RecordedLakeSnapshot(head, self.stated or self.ends))
        return self

    def _changes(self, bucket: BucketKey) -> pa.Table:
        return self._read[bucket] if bucket in self._read else self._read_log(bucket)

    def _read_log(self, bucket: BucketKey) -> pa.Table:
        start, stop = self.starts.get(bucket, 0), self.ends[bucket]
        name = None if bucket.partition_id is None else self.names[bucket.partition_id]
        split = TieringLogSplit(self._table.path, bucket, name, start, stop, stop)
        batches = self._world.storage.reader(self._table, split).read() if stop > start else ()
        return pa.Table.from_batches(list(batches), schema=self._table.read_schema())

    def _write_offsets(self) -> str:
        location = self._world.view(self._table).location
        assert location is not None
        folder = local(location) / "lake" / "sales" / "metadata"
        folder.mkdir(parents=True, exist_ok=True)
        self.offsets_file = file = folder / f"{uuid.uuid4()}.offsets"
        self._write_stated(file)
        return f"file://{file}"

    def _write_stated(self, file: Path) -> None:
        count, partitions = self._table.bucket_count, sorted({bucket.partition_id or 0 for bucket in self.stated})
        if self._table.partition_keys:
            rows = {number: [self.stated.get(BucketKey(number, bucket), -1) for bucket in range(count)] for number in partitions}
            stated: dict[str, object] = {
                "partition_offsets": [{"partition_id": number, "bucket_offsets": row} for number, row in rows.items()]
            }
        else:
            stated = {"bucket_offsets": [self.stated.get(BucketKey(None, bucket), -1) for bucket in range(count)]}
        file.write_text(json.dumps({"version": 1, "table_id": self._table.table_id, **stated}))


class FlinkOnPaimon(FlinkOnIceberg):
    """Fluss's tiering of a Paimon table. Its files are as old as its plan: the plan takes the sequence numbers."""

    def plan(self, stop: int | None = None) -> FlinkOnIceberg:
        self._files = FlinkPaimonFiles(self._table, self._world.view(self._table))
        return super().plan(stop)

    def _commit(self, changes: Mapping[BucketKey, pa.Table], offsets_path: str) -> None:
        self._files.commit(self._world.view(self._table), changes, {"fluss-offsets": offsets_path}, self.names)


def flink_on(world: LakeWorld, table: TableInfo) -> FlinkOnIceberg:
    """A round of the other service on a lake of the world's format."""
    return FlinkOnPaimon(world, table) if world.lake_format == "paimon" else FlinkOnIceberg(world, table)
