"""Lakeward beside Flink, in one thread: the real coordinator and the real round over a cluster and a lake in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from support.background import in_turns, tick
from support.clusters.memory_cluster import log_table
from support.clusters.shared_cluster import Record, SharedMemoryCluster
from support.flink.flink_committer import FlinkCommitter
from support.lakes.clean_memory_lake import CLEAN_SCHEMA
from support.lakes.shared_memory_lake import SharedMemoryLake
from support.worlds.leases import DirectLeaseCalls, keeper
from support.worlds.memory_store import MemoryStore
from support.worlds.simulated_effects import SeededIds, SimulatedClock, SimulatedTransport
from tiering.coordinator.calls.reconcile_lake import reconcile_lake
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.server.coordinator import Coordinator
from tiering.coordinator.tierers.leases import Leases
from tiering.model.rounds import Assignment, RecordedLakeSnapshot, RoundState
from tiering.model.tables import BucketKey, ChangeType, TableInfo, TableType
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult
from tiering.round.messages import RoundReport, report_to_pb
from tiering.round.runner import RoundEnvironment, RoundRunner
from tiering.round.steps import actions as act
from tiering.round.tasks.inline_runner import InlineTaskRunner
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.model_codecs import ASSIGNMENT

B0 = BucketKey(None, 0)
FRESHNESS_MS = 1_000
LOG_TABLE = replace(log_table(buckets=1), freshness_ms=FRESHNESS_MS)
KEY_TABLE = replace(
    LOG_TABLE, table_type=TableType.PRIMARY_KEY, primary_key=("id",), schema=pa.schema([pa.field("id", pa.int64(), nullable=False)])
)
CLEAN_LOG_TABLE, CLEAN_KEY_TABLE = (replace(table, schema=CLEAN_SCHEMA) for table in (LOG_TABLE, KEY_TABLE))
INSERT, BEFORE, AFTER, DELETE = ChangeType.INSERT, ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER, ChangeType.DELETE


def appended(count: int) -> list[Record]:
    """Records of a log table."""
    return [(ChangeType.APPEND, 0)] * count


class LeasingTransport(DirectLeaseCalls, SimulatedTransport):
    """A transport that loses nothing."""

    def __init__(self, coordinator: Callable[[], Coordinator]) -> None:
        super().__init__("tierer-1", "process-1", coordinator, lambda: False, lambda _: None, random.Random(1))
        self._owner = coordinator

    def lease_service(self) -> Leases:
        return self._owner().leases


class BesideFlink:
    """One table, one tierer of ours. `tier` runs a round of ours to its end, `flink` is a new incarnation of the other committer."""

    def __init__(
        self, table: TableInfo = LOG_TABLE, records: list[Record] | None = None, lake: type[SharedMemoryLake] = SharedMemoryLake
    ) -> None:
        self.info = table
        self.clock, self.ids, self.store = SimulatedClock(), SeededIds(), MemoryStore()
        self.cluster = SharedMemoryCluster(table)
        self.lake = lake(self.cluster)
        self._sequence = 0
        self.coordinator = self._start()
        self.cluster.write(0, *(appended(50) if records is None else records))

    def _start(self) -> Coordinator:
        options = CoordinatorOptions(service_timeout_ms=10_000, backoff_max_ms=5_000, min_round_duration_ms=600_000)
        coordinator = Coordinator(self.store, self.cluster, lambda _: self.lake, options, self.clock, self.ids, random.Random(1).random)
        self._looks = in_turns(coordinator)
        tick(coordinator)
        return coordinator

    def restart(self) -> None:
        """The coordinator is gone with all that it remembers; the next one has what is stored."""
        self.coordinator = self._start()

    def flink(self) -> FlinkCommitter:
        return FlinkCommitter(self.cluster, self.lake)

    def begin(self) -> tuple[Assignment, RoundRunner]:
        """The next round of ours, as soon as it is due."""
        for _ in range(20):
            if (following := self.next_round()) is not None:
                return following
            self.clock.ms += FRESHNESS_MS
            tick(self.coordinator)
        raise AssertionError(f"the table is not due: {self.record.state}, {self.record.error}")

    def next_round(self) -> tuple[Assignment, RoundRunner] | None:
        """The round that the coordinator assigns now, behind the looks at logs and lake that wait."""
        self._looks.run()
        answer = self._beat(request_table=True)
        if not answer.HasField("tiering_table"):
            return None
        assignment = ASSIGNMENT.from_pb(answer.tiering_table, coordinator_epoch=answer.coordinator_epoch)
        transport = LeasingTransport(lambda: self.coordinator)
        inline = InlineTaskRunner()
        world = RoundEnvironment(transport, self.cluster, lambda _: self.lake, inline, inline, self.clock, self.ids, 0, keeper(transport))
        return assignment, RoundRunner(world, assignment)

    def end(self, assignment: Assignment, runner: RoundRunner) -> act.RoundOutcome:
        outcome = runner.run()
        report = RoundReport(assignment, outcome)
        self._beat(**{"finished_tables" if report.finished else "failed_tables": [report_to_pb(report)]})
        tick(self.coordinator)
        return outcome

    def tier(self) -> act.RoundOutcome:
        """A round of ours to its end."""
        return self.end(*self.begin())

    def succeed(self) -> act.RoundOutcome:
        outcome = self.tier()
        assert outcome.error is None, outcome.error
        return outcome

    def refuse(self) -> str:
        """The class of the permanent error in which our next round ends; its hint names what mends it."""
        outcome = self.tier()
        assert outcome.error is not None
        assert (outcome.state, outcome.error.retryable) == (RoundState.FAILED, False), outcome
        assert "CALL sys." in outcome.error.hint
        return outcome.error.error_class

    def reconcile(self, action: str) -> ReconcileLakeResult:
        return reconcile_lake(self.coordinator.call_parts, ReconcileLake(self.info.path, action, caller="alice"))

    @property
    def record(self) -> TableRecord:
        [record] = self.coordinator.table_records.live()
        return record

    @property
    def fluss_record(self) -> RecordedLakeSnapshot | None:
        """Fluss's record of the lake."""
        return self.cluster.lake_snapshot(self.info)

    @property
    def newest(self) -> int:
        """The newest tiering snapshot of the lake."""
        tiering = [snapshot for snapshot in self.lake.table.snapshots.values() if snapshot.commit_user is not None]
        return max(tiering, key=lambda snapshot: snapshot.sequence_number).snapshot_id

    def assert_whole(self) -> None:
        """Every offset, or key, once and as the log has it; Fluss names the newest tiering snapshot with the log's ends."""
        counts = self.lake.row_counts()
        assert {place: count for place, count in counts.items() if count != 1} == {}
        assert self.lake.held() == self.lake.truth()
        recorded = self.fluss_record
        assert recorded is not None
        living = {bucket: end for bucket, end in recorded.offsets.items() if bucket in self.cluster.living}
        assert RecordedLakeSnapshot(recorded.lake_snapshot_id, living) == RecordedLakeSnapshot(self.newest, self.cluster.ends())

    def quiet(self) -> None:
        """Both services go on, nothing is wrong, nothing changes any more."""
        self.succeed()
        self.assert_whole()
        self.flink().whole()
        self.succeed()
        self.assert_whole()
        assert self.succeed().state is RoundState.EMPTY

    def _beat(self, **fields: Any) -> pb.LakeTieringHeartbeatResponse:
        self._sequence += 1
        tierer = pb.PbTierer(tierer_id="tierer-1", sequence=self._sequence, started_at_ms=1, slots=1, incarnation="process-1")
        answer, _ = self.coordinator.heartbeats.handle(pb.LakeTieringHeartbeatRequest(tierer=tierer, **fields))
        return answer
