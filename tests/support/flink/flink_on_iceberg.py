"""What Fluss's own tiering commits to a real lake table, without a Fluss: the source is a `LakeWorld`'s embedded cluster.

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
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.service_mode import ServiceMode
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, TableInfo


def share(world: LakeWorld) -> None:
    """Its cluster is shared with another tiering service from now on."""
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

    def plan(self, stop: int | None = None) -> FlinkOnIceberg:
        recorded = self._world.storage.lake_snapshot(self._table)
        self.starts = {} if recorded is None else dict(recorded.offsets)
        logs = self._world.storage.offsets(self._table)
        self.ends = {bucket: log.log_end if stop is None else min(stop, log.log_end) for bucket, log in logs.items()}
        return self

    def append(self) -> FlinkOnIceberg:
        """On whatever the head is by now."""
        self._commit({bucket: self.spoil(self._changes(bucket)) for bucket in self.ends}, self._write_offsets())
        return self

    def _commit(self, changes: Mapping[BucketKey, pa.Table], offsets_path: str) -> None:
        properties = {"commit-user": FLUSS_COMMIT_USER, "fluss-offsets": offsets_path}
        FlinkFiles(self._table, self._world.iceberg(self._table), self._world.view(self._table)).commit(changes, properties)

    def tell(self) -> FlinkOnIceberg:
        head = self._world.view(self._table).head
        assert head is not None
        self._world.storage.rewind_lake_snapshot(self._table, RecordedLakeSnapshot(head, self.ends))
        return self

    def _changes(self, bucket: BucketKey) -> pa.Table:
        start, stop = self.starts.get(bucket, 0), self.ends[bucket]
        split = TieringLogSplit(self._table.path, bucket, None, start, stop, stop)
        batches = self._world.storage.reader(self._table, split).read() if stop > start else ()
        return pa.Table.from_batches(list(batches), schema=self._table.read_schema())

    def _write_offsets(self) -> str:
        location = self._world.view(self._table).location
        assert location is not None
        folder = local(location) / "lake" / "sales" / "metadata"
        folder.mkdir(parents=True, exist_ok=True)
        self.offsets_file = file = folder / f"{uuid.uuid4()}.offsets"
        offsets = [self.ends.get(BucketKey(None, number), -1) for number in range(self._table.bucket_count)]
        file.write_text(json.dumps({"version": 1, "table_id": self._table.table_id, "bucket_offsets": offsets}))
        return f"file://{file}"


class FlinkOnPaimon(FlinkOnIceberg):
    """The same of a Paimon table. What it writes is as old as its plan: by then it took its sequence numbers."""

    def plan(self, stop: int | None = None) -> FlinkOnIceberg:
        self._files = FlinkPaimonFiles(self._table, self._world.view(self._table))
        return super().plan(stop)

    def _commit(self, changes: Mapping[BucketKey, pa.Table], offsets_path: str) -> None:
        self._files.commit(self._world.view(self._table), changes, {"fluss-offsets": offsets_path})


def flink_on(world: LakeWorld, table: TableInfo) -> FlinkOnIceberg:
    """A round of the other service on a lake of the world's format."""
    return FlinkOnPaimon(world, table) if world.lake_format == "paimon" else FlinkOnIceberg(world, table)
