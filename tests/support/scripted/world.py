"""A `LakeWorld` whose tables are those of a scripted Fluss cluster: a test chooses its release, privileges and partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from support.background import tick
from support.clusters.fluss_owner import settings_of
from support.lake_kinds.kinds import LakeKind
from support.scripted.cluster import FIRST, ScriptedCluster, ScriptedTable
from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering.cluster.fluss.cluster import FlussCluster
from tiering.cluster.fluss.memory import FlussMemory
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import LakewardError
from tiering.model.assignments import ServiceMode
from tiering.model.reading.conditions import Condition
from tiering.model.reading.scans import ReadScan
from tiering.model.tables import BucketKey, TableInfo


def numbered_rows(start: int, count: int) -> pa.RecordBatch:
    """Returns rows `start .. start+count-1` of SCHEMA."""
    numbers = range(start, start + count)
    return pa.RecordBatch.from_pydict({"id": list(numbers), "text": [f"row {number}" for number in numbers]}, schema=SCHEMA)


class ScriptedFlussWorld(LakeWorld):
    """One coordinator and one tierer of ours on `fluss`."""

    def __init__(self, folder: Path, release: str = "1.0", mode: ServiceMode = ServiceMode.EXCLUSIVE, kind: LakeKind | None = None) -> None:
        self.fluss, self._mode = ScriptedCluster(folder / "fluss", release), mode
        super().__init__(folder, kind=kind)

    def _open_cluster(self, folder: Path) -> Any:
        folder.mkdir(parents=True, exist_ok=True)
        connection = FlussConnection.parse(self.fluss.address)
        self.memory = FlussMemory(folder)
        return FlussCluster(connection, FlussClient(connection), settings_of(self.fluss.address, self._mode), self.memory)

    def close(self) -> None:
        super().close()
        self.memory.close()
        self.fluss.close()

    def create(self, name: str, schema: pa.Schema = SCHEMA, buckets: int = 1, **shape: Any) -> tuple[ScriptedTable, TableInfo]:
        """A new lake-enabled log table, which the coordinator knows."""
        table = self.fluss.create(name, schema, buckets, **shape)
        tick(self.coordinator)
        return table, self.storage.table(table.path)

    def write(self, table: ScriptedTable, start: int, count: int, bucket: BucketKey = FIRST) -> None:
        """Rows `start .. start+count-1` of SCHEMA into one bucket."""
        self.fluss.append(table, numbered_rows(start, count), bucket)

    def lake_ids(self, table: TableInfo) -> list[int]:
        """The ids in the lake table, sorted."""
        return sorted(self.iceberg(table).scan().to_arrow()["id"].to_pylist())

    def outcomes(self) -> dict[int, LakewardError | None]:
        """A round of each table that is due; its error by table id."""
        self.due()
        errors: dict[int, LakewardError | None] = {}
        while (answer := self.beat(request_table=True)).HasField("tiering_table"):
            errors[answer.tiering_table.table_id] = self._stepped(answer).end().error
        return errors

    def fresh_ids(self, table: TableInfo, *conditions: Condition) -> list[int]:
        """The ids of a read of lake and log, sorted. Conditions prune only."""
        reads = self.coordinator.reads
        _, ticket = reads.renew(reads.open(table.path, "tests", "").ticket)
        tasks = reads.plan(ticket, ReadScan(conditions=conditions))[0]
        ids = [row["id"] for task in tasks for batch in task.read() for row in batch.to_pylist()]
        reads.close(ticket)
        return sorted(ids)

    def take_for_dead(self) -> None:
        """Advances the clock until our tierer's round has failed and its back-off has ended."""
        for _ in range(2):
            self.clock.advance(600)
            tick(self.coordinator)
