"""A `LakeWorld` whose tables are those of a real Fluss cluster, with another tiering service beside it: Flink's, scripted.

Our rounds run in this process, under a coordinator that sees the world's own tables alone, whatever else the cluster holds. Fluss assigns
the tables to us, if the world is shared, and to the other service.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyiceberg.table.snapshots import Snapshot

from support.background import tick
from support.clusters.fluss_owner import settings_of
from support.clusters.fluss_tables import FlussTables
from support.flink.flink_on_fluss import FlinkOnFluss
from support.running.processes import wait_for
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, SCHEMA, LakeWorld
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.fluss.cluster import FlussCluster
from tiering.cluster.fluss.memory import FlussMemory
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.source import FlussSource
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import LakeRecordUnreadable
from tiering.lake.base import FLUSS_COMMIT_USER, FLUSS_COMMIT_USER_KEY
from tiering.lake.marker import TieredRange
from tiering.model.assignments import ServiceMode
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.round.steps import actions as act
from tiering.rpc.fluss import fluss_pb2 as fluss
from tiering.rpc.v1 import coordinator_pb2 as pb

LONG_SILENCE_S = 600


class OwnTables(FlussCluster):
    """The coordinator's view of a cluster that holds no tables but `names`."""

    names: frozenset[str] = frozenset()

    def tables(self, database_name: str | None = None) -> list[TableInfo]:
        return [table for table in super().tables(database_name) if table.path.table_name in self.names]


class FlussLakeWorld(LakeWorld):
    """One coordinator of ours, one tierer, and as many incarnations of the other service as `flink` is called. Tables have one bucket."""

    def __init__(self, folder: Path, servers: str, mode: ServiceMode = ServiceMode.SHARED) -> None:
        self.servers, self._mode = servers, mode
        self.written = FlussTables(servers)
        self._made: list[TableInfo] = []
        connection = FlussConnection.parse(servers)
        self._other_client = FlussClient(connection)
        self._other_source = FlussSource(connection, FlussClient(connection), settings_of(servers, ServiceMode.SHARED))
        super().__init__(folder)
        self.clock.wall = datetime.now(UTC)

    @property
    def cluster(self) -> OwnTables:
        return cast(OwnTables, self.storage)

    def _open_cluster(self, folder: Path) -> EmbeddedStorage:
        folder.mkdir(parents=True, exist_ok=True)
        connection = FlussConnection.parse(self.servers)
        self.memory = FlussMemory(folder)
        return OwnTables(connection, FlussClient(connection), settings_of(self.servers, self._mode), self.memory)  # type: ignore[return-value]

    def close(self) -> None:
        for table in self._made:
            self.written.drop(table)
        super().close()
        self.memory.close()
        self._other_source.close()
        self._other_client.close()
        self.written.close()

    def table(self, name: str, buckets: int = 1, freshness: str = "1s", **_: Any) -> TableInfo:  # type: ignore[override]
        """A new lake-enabled log table, in place of one of that name."""
        return self._new(name, SCHEMA, (), buckets, freshness)

    def primary_key_table(self, name: str, buckets: int = 1, **_: Any) -> TableInfo:  # type: ignore[override]
        """A new lake-enabled primary-key table, in place of one of that name."""
        return self._new(name, PRIMARY_KEY_SCHEMA, ("id",), buckets)

    def _new(self, name: str, schema: pa.Schema, key: tuple[str, ...], buckets: int, freshness: str = "1s") -> TableInfo:
        return self.create(name, schema, key, freshness=freshness, buckets=buckets)

    def create(
        self,
        name: str,
        schema: pa.Schema,
        key: tuple[str, ...] = (),
        properties: Mapping[str, str] | None = None,
        freshness: str = "1s",
        **description: Any,
    ) -> TableInfo:
        """A new table of any shape, lake-enabled unless `properties` say otherwise, in place of one of that name."""
        properties = {"table.datalake.enabled": "true", "table.datalake.freshness": freshness, **(properties or {})}
        self._made.append(self.written.create(name, schema, key, properties=properties, **description))
        self.cluster.names |= {name}
        return self.again(TablePath("sales", name))

    def again(self, path: TablePath) -> TableInfo:
        """The table as it is now; the coordinator knows it, too."""
        tick(self.coordinator)
        return self.cluster.table(path)

    def append(self, table: TableInfo, start: int, count: int) -> None:
        """Rows `start .. start+count-1` into a log table."""
        numbers = range(start, start + count)
        rows = {"id": list(numbers), "text": [f"row {number}" for number in numbers]}
        self.written.append(table, [pa.RecordBatch.from_pydict(rows, schema=SCHEMA)])

    def upsert(self, table: TableInfo, ids: range | list[int], text: str) -> None:
        self.written.upsert(table, ({"id": number, "text": f"{text} {number}"} for number in ids))

    def delete(self, table: TableInfo, ids: range | list[int]) -> None:
        self.written.delete(table, ({"id": number} for number in ids))

    def flink(self, table: TableInfo) -> FlinkOnFluss:
        """An incarnation of the other service."""
        return FlinkOnFluss(self._other_client, self._other_source, self, table)

    def _request_table(self, table: TableInfo) -> pb.LakeTieringHeartbeatResponse:
        """Where Fluss assigns, it takes its time."""

        def answer() -> pb.LakeTieringHeartbeatResponse | None:
            response = self.beat(request_table=True)
            if response.HasField("tiering_table"):
                return response
            self.clock.advance(1)
            tick(self.coordinator)
            return None

        return wait_for(f"{table.path} is assigned to us", answer)

    def tier(self, table: TableInfo) -> act.RoundOutcome:
        """A whole round. Fluss hears of its end, and our tierer stops, so that Fluss may assign the table to the other service."""
        outcome = super().tier(table)
        if self.coordinator.relay is not None:
            self.beat(stopping=True)
            self.coordinator.relay.run_quietly()
        return outcome

    def take_for_dead(self) -> None:
        """Our tierer is silent for so long that its round has failed, and the back-off behind that is over, too."""
        for _ in range(2):
            self.clock.advance(LONG_SILENCE_S)
            tick(self.coordinator)

    def is_due_in_fluss(self, table: TableInfo) -> bool:
        """Whether Fluss would assign the table now. Whatever it does assign is handed back."""
        assigned: dict[int, fluss.PbHeartbeatReqForTable] = {}
        while True:
            answer = self._other_client.coordinator(fluss.LakeTieringHeartbeatRequest(request_table=True))
            if not answer.HasField("tiering_table"):
                break
            given_out = answer.tiering_table
            assigned[given_out.table_id] = fluss.PbHeartbeatReqForTable(
                table_id=given_out.table_id, coordinator_epoch=answer.coordinator_epoch, tiering_epoch=given_out.tiering_epoch
            )
        self._other_client.coordinator(fluss.LakeTieringHeartbeatRequest(failed_tables=assigned.values()))
        return table.table_id in assigned

    def fluss_record(self, table: TableInfo) -> RecordedLakeSnapshot | None:
        """Returns Fluss's answer to every client. Raises LakeRecordUnreadable if Fluss itself cannot read it."""
        return self._other_source.lake_snapshot(table)

    def is_readable(self, table: TableInfo) -> bool:
        try:
            self.fluss_record(table)
        except LakeRecordUnreadable:
            return False
        return True

    def log_ends(self, table: TableInfo) -> dict[BucketKey, int]:
        return {bucket: log.log_end for bucket, log in self._other_source.offsets(table).items()}

    def newest_tiering(self, table: TableInfo) -> Snapshot:
        """The newest snapshot with Fluss's commit user, ours or the other's."""
        tiering = [
            snapshot
            for snapshot in self.iceberg(table).metadata.snapshots
            if snapshot.summary is not None and snapshot.summary.get(FLUSS_COMMIT_USER_KEY) == FLUSS_COMMIT_USER
        ]
        return max(tiering, key=lambda snapshot: snapshot.sequence_number or 0)

    def assert_told(self, table: TableInfo) -> None:
        """Fluss can read its record, which names the newest tiering snapshot with the ends of the log; so does our own record."""
        ends = self.log_ends(table)
        assert self.fluss_record(table) == RecordedLakeSnapshot(self.newest_tiering(table).snapshot_id, ends)
        assert self.record(table).lake.offsets == {str(bucket): end for bucket, end in ends.items()}

    def marked_ends(self, table: TableInfo) -> dict[BucketKey, TieredRange]:
        """Returns the ends in our newest marker."""
        marker = self.view(table).marker
        return {} if marker is None else dict(marker.buckets)
