"""A coordinator with a cluster and a lake in memory, a clock to drive, and tierers driven by hand."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from support.background import tick
from support.clusters.assigner import Assigner, AssigningMemoryCluster
from support.clusters.memory_cluster import MemoryCluster, log_table
from support.lakes.memory_lake import MemoryLake, Request
from support.worlds.memory_store import MemoryStore
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.waits import FIRST_ROUND_MS
from tiering.coordinator.memory.store import Store
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.server.coordinator import Coordinator
from tiering.lake.marker import Marker, TieredRange
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.procedures.base import Progress
from tiering.procedures.tier_table import TierTable, TierTableResult
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.model_codecs import OFFSETS

START = datetime(2026, 1, 1, tzinfo=UTC)
FRESHNESS = 180
"""Seconds: the freshness of the tables that `log_table` makes."""
BEGINS = FRESHNESS - FIRST_ROUND_MS // 1_000
"""After so many seconds such a table is due while no round tells how long the next one takes."""


class HandClock:
    """Stands still until a test moves it; its wall time can be set apart from its steady one."""

    def __init__(self) -> None:
        self.wall = START
        self.elapsed_ms = 1_000

    def now(self) -> datetime:
        return self.wall

    def monotonic_ms(self) -> int:
        return self.elapsed_ms

    def advance(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.elapsed_ms += int(seconds * 1_000)


class CountingIds:
    """r1, r2, ..."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def new_id(self) -> str:
        return f"r{next(self._numbers)}"


@dataclass
class World:
    """One coordinator at a time over one store."""

    tables: tuple[TableInfo, ...] = field(default_factory=lambda: (log_table(),))
    options: CoordinatorOptions = field(default_factory=CoordinatorOptions)
    store: Store = field(default_factory=MemoryStore)
    assigner: Assigner | None = None
    """For a cluster that assigns its tables."""
    rows: int = 0
    """Rows in the log of each table from the beginning. Where the background runs, a table without rows gets no round."""

    def __post_init__(self) -> None:
        self.clock = HandClock()
        self.ids = CountingIds()
        self.cluster = MemoryCluster(*self.tables) if self.assigner is None else AssigningMemoryCluster(self.assigner, self.tables)
        for table in self.tables:
            self.append(self.rows, table=table)
        self.lake = self.new_lake()
        self.progress_lines: list[str] = []
        self.coordinator = self.another()
        tick(self.coordinator)

    def new_lake(self) -> MemoryLake:
        return MemoryLake()

    @property
    def table(self) -> TableInfo:
        return self.tables[0]

    def another(self) -> Coordinator:
        """A coordinator that takes the store over."""
        return Coordinator(self.store, self.cluster, lambda _: self.lake, self.options, self.clock, self.ids, jitter=lambda: 0.0)

    def restart(self) -> None:
        """The process ends, and another one takes over."""
        self.coordinator.close()
        self.coordinator = self.another()
        tick(self.coordinator)

    def crash(self) -> None:
        """The process is gone without a word, and another one takes over."""
        self.coordinator = self.another()
        tick(self.coordinator)

    def later(self, seconds: float) -> None:
        """Time passes, and the coordinator notices."""
        self.clock.advance(seconds)
        tick(self.coordinator)

    def due(self) -> None:
        """All freshness is over."""
        self.later(FRESHNESS)

    def record(self, table: TableInfo | None = None) -> TableRecord:
        record = self.coordinator.table_records.get((table or self.table).table_id)
        assert record is not None
        return record

    def state(self, table: TableInfo | None = None) -> str:
        record = self.record(table)
        assert record.state is not None
        return record.state.value

    def append(self, records: int = 10, bucket: int = 0, table: TableInfo | None = None) -> None:
        self.cluster.append(table or self.table, bucket, records)

    def tierer(self, name: str = "tierer-1") -> HandTierer:
        return HandTierer(self, name)

    def process(self, incarnation: str, name: str = "tierer-1") -> HandTierer:
        """A tierer that started as the process of that incarnation; none has a clock that is of any use."""
        return HandTierer(self, name, started_at_ms=0, incarnation=incarnation)

    def call(self, path: TablePath | None = None, caller: str = "alice", **arguments: Any) -> TierTableResult:
        """A CALL, to its end."""
        return asyncio.run(self.calling(path, caller, **arguments))

    async def calling(self, path: TablePath | None = None, caller: str = "alice", **arguments: Any) -> TierTableResult:
        """Runs a call in an event loop, and keeps its progress lines in `progress_lines`."""
        async for step in self.coordinator.control.perform_with_progress(TierTable(path or self.table.path, caller=caller, **arguments)):
            if isinstance(step, Progress):
                self.progress_lines.append(step.message)
            else:
                result = step
        return result

    def assigned(self, table: TableInfo | None = None) -> tuple[HandTierer, pb.PbLakeTieringTableInfo]:
        """A tierer that was just given the due table."""
        self.due()
        tierer = self.tierer()
        return tierer, tierer.get()


class HandTierer:
    """Does what a tierer does, one message at a time. `running` is what it lists in its heartbeats.

    Without an incarnation it is of an older version.
    """

    def __init__(self, world: World, name: str, started_at_ms: int = 1, incarnation: str | None = None) -> None:
        self.world = world
        self.name = name
        self.started_at_ms = started_at_ms
        self.incarnation = incarnation
        self.slots = 0
        """Slots; 0 like an older tierer, which does not report them."""
        self.sequence = 0
        self.epoch = 0
        self.running: dict[str, pb.PbLakeTieringTableInfo] = {}

    def about(self, info: pb.PbLakeTieringTableInfo, **fields: Any) -> pb.PbHeartbeatReqForTable:
        return pb.PbHeartbeatReqForTable(
            table_id=info.table_id, coordinator_epoch=self.epoch, tiering_epoch=info.tiering_epoch, round_id=info.round_id, **fields
        )

    def message(
        self,
        *,
        request: bool = False,
        finished: tuple[pb.PbHeartbeatReqForTable, ...] = (),
        failed: tuple[pb.PbHeartbeatReqForTable, ...] = (),
        max_wait_ms: int = 0,
        stopping: bool = False,
    ) -> pb.LakeTieringHeartbeatRequest:
        """The next heartbeat."""
        self.sequence += 1
        return pb.LakeTieringHeartbeatRequest(
            tierer=pb.PbTierer(
                tierer_id=self.name,
                sequence=self.sequence,
                started_at_ms=self.started_at_ms,
                incarnation=self.incarnation,
                slots=self.slots,
            ),
            tiering_tables=[self.about(info) for info in self.running.values()],
            finished_tables=finished,
            failed_tables=failed,
            request_table=request,
            max_wait_ms=max_wait_ms,
            stopping=stopping,
        )

    def beat(self, **fields: Any) -> pb.LakeTieringHeartbeatResponse:
        """Sends it, and takes what it is given."""
        response, _ = self.world.coordinator.heartbeats.handle(self.message(**fields))
        self.epoch = response.coordinator_epoch
        if response.HasField("tiering_table"):
            self.running[response.tiering_table.round_id] = response.tiering_table
        return response

    def lose_answer(self) -> pb.PbLakeTieringTableInfo:
        """Asks for a table and never gets the answer."""
        response, _ = self.world.coordinator.heartbeats.handle(self.message(request=True))
        assert response.HasField("tiering_table")
        return response.tiering_table

    def get(self) -> pb.PbLakeTieringTableInfo:
        """Asks for a table and gets one."""
        response = self.beat(request=True)
        assert response.HasField("tiering_table"), "no table was due"
        return response.tiering_table

    def ref(self, info: pb.PbLakeTieringTableInfo) -> pb.PbRound:
        return pb.PbRound(
            table_id=info.table_id,
            coordinator_epoch=self.epoch,
            tiering_epoch=info.tiering_epoch,
            round_id=info.round_id,
            tierer_id=self.name,
            incarnation=self.incarnation,
        )

    def ends(self, info: pb.PbLakeTieringTableInfo) -> dict[BucketKey, int]:
        return {bucket: end for bucket, (_, end) in self.world.cluster.logs[info.table_id].items()}

    def plan(self, info: pb.PbLakeTieringTableInfo) -> None:
        """Makes the lake table and records the plan: up to the log's ends."""
        view = self.world.lake.ensure_table(self._table(info))
        request = pb.RecordPlanRequest(round=self.ref(info), lake_table_uuid=view.table_uuid, splits=2)
        request.planned_stops.extend(OFFSETS.to_pb(self.ends(info)))
        if view.head is not None:
            request.passed_head = view.head
        self.world.coordinator.commits.record_plan(request)

    def prepare(self, info: pb.PbLakeTieringTableInfo, buckets: Collection[int] | None = None) -> Request:
        """The commit that brings the lake to the log's ends, or that of some buckets only, built on the lake as it is now."""
        view = self.world.lake.ensure_table(self._table(info))
        ranges = dict(view.marker.buckets) if view.marker else {}
        logs = self.world.cluster.logs[info.table_id]
        starts = {bucket: ranges[bucket].start if bucket in ranges else log_start for bucket, (log_start, _) in logs.items()}
        base = starts | {bucket: reached.tiered for bucket, reached in ranges.items()}
        whole = self.ends(info).items()
        ends = {bucket: end if buckets is None or bucket.bucket_id in buckets else base[bucket] for bucket, end in whole}
        marker = Marker(
            cluster_id=self.world.cluster.cluster_id,
            table_id=info.table_id,
            lake_table_uuid=view.table_uuid,
            round_id=info.round_id,
            tiering_epoch=info.tiering_epoch,
            base_round_id=view.marker.round_id if view.marker else None,
            buckets={bucket: TieredRange(starts[bucket], end) for bucket, end in ends.items()},
        )
        new = {bucket: (base[bucket], end) for bucket, end in ends.items() if end > base[bucket]}
        files = tuple((bucket, start, end, f"lakeward-{info.round_id}-{bucket}.parquet") for bucket, (start, end) in new.items())
        return Request(self._table(info).path, view.table_uuid, view.head, view.tiered, marker, files)

    def begin(self, info: pb.PbLakeTieringTableInfo, request: Request) -> pb.BeginLakeCommitResponse:
        message = pb.BeginLakeCommitRequest(
            round=self.ref(info), base_round_id=request.marker.base_round_id, base_tag=request.tiered, records=10, files=1
        )
        message.offsets.extend(OFFSETS.to_pb({bucket: tiered.tiered for bucket, tiered in request.marker.buckets.items()}))
        return self.world.coordinator.commits.begin_lake_commit(message)

    def ack(self, info: pb.PbLakeTieringTableInfo) -> None:
        """Tells what the lake's marker says now."""
        self.world.coordinator.commits.commit_lake_snapshot(self.ack_message(info))

    def ack_message(self, info: pb.PbLakeTieringTableInfo) -> pb.CommitLakeSnapshotRequest:
        """Returns the ack of a round, to be sent later."""
        view = self.world.lake.view(self._table(info).path)
        assert view is not None
        assert view.tiered is not None
        assert view.marker is not None
        message = pb.CommitLakeSnapshotRequest(round=self.ref(info), marker_round_id=view.marker.round_id, lake_table_uuid=view.table_uuid)
        message.marker.lake_snapshot_id = view.tiered
        message.marker.offsets.extend(OFFSETS.to_pb({bucket: tiered.tiered for bucket, tiered in view.marker.buckets.items()}))
        return message

    def commit(self, info: pb.PbLakeTieringTableInfo, buckets: Collection[int] | None = None) -> None:
        """Plan, fence and lake commit, of some buckets only if the round stopped early; no ack yet."""
        self.plan(info)
        request = self.prepare(info, buckets)
        assert self.begin(info, request).granted
        assert self.world.lake.receive(request)

    def finish(self, info: pb.PbLakeTieringTableInfo, **fields: Any) -> pb.LakeTieringHeartbeatResponse:
        self.running.pop(info.round_id, None)
        stats = pb.PbRoundStats(splits=2, records_written=10, files_written=1, bytes_written=100)
        return self.beat(finished=(self.about(info, stats=stats, **fields),))

    def fail(self, info: pb.PbLakeTieringTableInfo, **fields: Any) -> pb.LakeTieringHeartbeatResponse:
        self.running.pop(info.round_id, None)
        error = {"error_message": "no disk left", "error_class": "OSError", "error_phase": "WRITE", "error_retryable": True} | fields
        return self.beat(failed=(self.about(info, **error),))

    def run(self, info: pb.PbLakeTieringTableInfo) -> None:
        """A whole round, well."""
        self.commit(info)
        self.ack(info)
        self.finish(info)

    def _table(self, info: pb.PbLakeTieringTableInfo) -> TableInfo:
        return next(table for table in self.world.cluster.tables() if table.table_id == info.table_id)
