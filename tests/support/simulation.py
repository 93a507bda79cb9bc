"""A whole deployment in one thread, driven by a seed: the real coordinator core and the real round machine over a cluster, a lake
and a store in memory. Processes die, answers get lost, requests arrive late, users compact, clocks jump.

Safety is checked after every step, liveness by `heal`: with the faults switched off everything ends up in the lake.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from support.memory_cluster import MemoryCluster, log_table
from support.memory_lake import MemoryLake, MemoryTable
from tiering.coordinator.coordinator import Coordinator
from tiering.coordinator.memory_store import MemoryStore
from tiering.coordinator.options import CoordinatorOptions
from tiering.errors import ServiceUnreachable
from tiering.lake.marker import Marker
from tiering.model import Assignment, BucketKey, Offsets, Phase, RecordedLakeSnapshot, RoundState
from tiering.round.actions import RoundOutcome
from tiering.round.base import Grant, HeartbeatCall
from tiering.round.inline import InlineTaskRunner
from tiering.round.reports import Report, renewal
from tiering.round.requests import assignment_from_pb, begin_request, commit_request, plan_request
from tiering.round.runner import RoundRunner, RoundWorld
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.rpc_errors import from_pb

SERVICE_TIMEOUT_MS = 10_000
FRESHNESS_MS = 1_000
TABLE = replace(log_table(), freshness_ms=FRESHNESS_MS)
LAKE_FAULTS = ("ok", "ok", "ok", "answer lost", "lost", "late")


class SimulatedClock:
    """Wall and monotonic time that move together, by hand."""

    def __init__(self) -> None:
        self.ms = 0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.ms)

    def monotonic_ms(self) -> int:
        return self.ms


class SeededIds:
    """Names in order."""

    def __init__(self) -> None:
        self._count = 0

    def new_id(self) -> str:
        self._count += 1
        return f"id-{self._count:05d}"


@dataclass
class SimulatedTierer:
    """One tierer process: at most one round, and reports that were not answered yet."""

    tierer_id: str
    started_at_ms: int
    sequence: int = 0
    running: tuple[Assignment, RoundRunner] | None = None
    outbox: list[Report] = field(default_factory=list)


class Simulation:
    """See the module. `step` does one random thing."""

    def __init__(self, seed: int, tierers: int = 2) -> None:
        self.random = random.Random(seed)
        self.clock, self.ids = SimulatedClock(), SeededIds()
        self.cluster, self.lake, self.store = MemoryCluster(TABLE), MemoryLake(), MemoryStore()
        self.lake.faults = self._lake_fault
        self.faulty = True
        self.tierers = [SimulatedTierer(f"tierer-{number}", number) for number in range(tierers)]
        self.outcomes: Counter[str] = Counter()
        self.coordinator = self._start_coordinator()

    def step(self) -> None:
        """One random thing, then all safety checks."""
        tierer = self.random.choice(self.tierers)
        things = {
            lambda: self._advance(tierer): 40,
            lambda: self._beat(tierer): 15,
            lambda: self._pass_time(self.random.choice((100, 500, 1_500))): 10,
            lambda: self._append(): 6,
            lambda: self.lake.deliver_late(): 4,
            lambda: self.lake.foreign_commit(TABLE.path): 3,
            lambda: self._pass_time(SERVICE_TIMEOUT_MS + 1): 2,
            lambda: self._kill(tierer): 2,
            lambda: self._restart_coordinator(): 1,
        }
        self.random.choices(list(things), weights=list(things.values()))[0]()
        self.check()

    def heal(self, limit: int = 400) -> None:
        """No more faults: within `limit` turns the lake has everything. Late requests arrive at the very end, too late."""
        self.faulty = False
        for _ in range(limit):
            if self._tiered() == self._ends():
                break
            for tierer in self.tierers:
                self._beat(tierer)
                while tierer.running is not None:
                    self._advance(tierer)
                self._beat(tierer)
            self._pass_time(FRESHNESS_MS)
            self.check()
        assert self._tiered() == self._ends(), f"not everything was tiered: {self._tiered()} of {self._ends()}; {self.outcomes}"
        while self.lake.late:
            self.lake.deliver_late()
            self.check()

    def check(self) -> None:
        """Safety: conservation per bucket, one snapshot a round, a chain of markers, no live file deleted, never beyond the log."""
        table = self.lake.tables.get(TABLE.path)
        if table is None or table.head is None:
            return
        self._check_rows(table)
        rounds = Counter(snapshot.round_id for snapshot in table.snapshots.values() if snapshot.round_id is not None)
        assert all(count == 1 for count in rounds.values()), rounds
        self._check_chain(table)
        live = {file for *_, file in table.rows[table.head]}
        assert not live & {file for *_, file in self.lake.deleted}
        running = [record for record in self.coordinator.book.live() if record.running is not None]
        assert len(running) <= 1

    def _check_rows(self, table: MemoryTable) -> None:
        assert table.head is not None
        assert table.tag is not None
        marker, ends = table.markers[table.tag], self._ends()
        for bucket, end in ends.items():
            ranges = sorted((start, stop) for at, start, stop, _ in table.rows[table.head] if at == bucket)
            reached = 0
            for start, stop in ranges:
                assert start == reached, f"bucket {bucket}: {ranges}"
                reached = stop
            assert marker.buckets[bucket].tiered == reached <= end

    def _check_chain(self, table: MemoryTable) -> None:
        markers = [table.markers[snapshot] for snapshot in sorted(table.markers)]
        for before, after in zip([None, *markers], markers, strict=False):
            assert after.base_round_id == (None if before is None else before.round_id)

    def _ends(self) -> dict[BucketKey, int]:
        return {bucket: end for bucket, (_, end) in self.cluster.logs[TABLE.table_id].items()}

    def _tiered(self) -> dict[BucketKey, int]:
        reached = dict.fromkeys(self._ends(), 0)
        for bucket, _, stop, _ in self.lake.rows(TABLE.path):
            reached[bucket] = max(reached[bucket], stop)
        return reached

    def _start_coordinator(self) -> Coordinator:
        options = CoordinatorOptions(service_timeout_ms=SERVICE_TIMEOUT_MS, backoff_max_ms=5_000, min_round_duration_ms=1)
        made = Coordinator(self.store, self.cluster, lambda _: self.lake, options, self.clock, self.ids, self.random.random)
        made.tick()
        return made

    def _restart_coordinator(self) -> None:
        self.coordinator.close()
        self.coordinator = self._start_coordinator()

    def _pass_time(self, milliseconds: int) -> None:
        self.clock.ms += milliseconds
        self.coordinator.tick()

    def _append(self) -> None:
        self.cluster.append(TABLE, self.random.randrange(TABLE.bucket_count), self.random.randint(1, 8))

    def _kill(self, tierer: SimulatedTierer) -> None:
        """The process is gone; another takes its place, at times under its name."""
        self.outcomes["killed"] += 1
        index = self.tierers.index(tierer)
        name = tierer.tierer_id if self.random.random() < 0.5 else self.ids.new_id()
        self.tierers[index] = SimulatedTierer(name, self.clock.ms + 1)

    def _advance(self, tierer: SimulatedTierer) -> None:
        if tierer.running is None:
            return
        assignment, runner = tierer.running
        outcome = runner.advance()
        if outcome is not None:
            self._ended(tierer, assignment, outcome)

    def _ended(self, tierer: SimulatedTierer, assignment: Assignment, outcome: RoundOutcome) -> None:
        permanent = outcome.state is RoundState.FAILED and outcome.error is not None and not outcome.error.retryable
        assert not permanent, f"{outcome.error}"
        self.outcomes[outcome.state.value] += 1
        tierer.running = None
        tierer.outbox.append(Report(assignment, outcome))

    def _beat(self, tierer: SimulatedTierer) -> None:
        """One heartbeat; its request or its answer may be lost."""
        tierer.sequence += 1
        running = [] if tierer.running is None else [tierer.running[0]]
        told = list(tierer.outbox)
        request = pb.LakeTieringHeartbeatRequest(
            tierer=pb.PbTierer(tierer_id=tierer.tierer_id, sequence=tierer.sequence, started_at_ms=tierer.started_at_ms, slots=1),
            tiering_tables=[renewal(assignment) for assignment in running],
            finished_tables=[report.to_pb() for report in told if report.finished],
            failed_tables=[report.to_pb() for report in told if not report.finished],
            force_finished_tables=[report.assignment.table_id for report in told if report.forced],
            request_table=not running,
        )
        if self.lost():
            return
        answer, _ = self.coordinator.heartbeats.handle(request)
        if self.lost():
            return
        tierer.outbox = [report for report in tierer.outbox if report not in told]
        if any(item.cancel for item in answer.tiering_table_resp) and tierer.running is not None:
            tierer.running[1].cancel("the coordinator cancelled the round")
        if answer.HasField("tiering_table"):
            assignment = assignment_from_pb(answer.tiering_table, answer.coordinator_epoch)
            tierer.running = (assignment, RoundRunner(self._world(tierer), assignment))

    def _world(self, tierer: SimulatedTierer) -> RoundWorld:
        transport, inline = SimulatedTransport(self, tierer.tierer_id), InlineTaskRunner()
        return RoundWorld(transport, self.cluster, lambda _: self.lake, inline, inline, self.clock, self.ids, 0)

    def lost(self) -> bool:
        """Whether the next message gets lost."""
        return self.faulty and self.random.random() < 0.1

    def _lake_fault(self) -> str:
        return self.random.choice(LAKE_FAULTS) if self.faulty else "ok"


class SimulatedTransport:
    """A `Transport` that calls the coordinator, when neither request nor answer gets lost."""

    def __init__(self, simulation: Simulation, tierer_id: str) -> None:
        self._simulation = simulation
        self._tierer_id = tierer_id

    def heartbeat(self, request: pb.LakeTieringHeartbeatRequest, timeout_ms: int) -> HeartbeatCall:
        raise AssertionError("a round sends no heartbeat")

    def record_plan(self, assignment: Assignment, lake_table_uuid: str, stops: Offsets, splits: int, passed_head: int | None) -> None:
        request = plan_request(assignment, self._tierer_id, lake_table_uuid, stops, splits, passed_head)
        self._lossy(lambda coordinator: coordinator.commits.record_plan(request))

    def begin_lake_commit(self, assignment: Assignment, grant: Grant) -> None:
        request = begin_request(assignment, self._tierer_id, grant)
        answer = self._lossy(lambda coordinator: coordinator.commits.begin_lake_commit(request))
        if not answer.granted:
            raise from_pb(answer.error)

    def commit_lake_snapshot(self, assignment: Assignment, marker: Marker, lake_snapshot_id: int) -> None:
        request = commit_request(assignment, self._tierer_id, marker, lake_snapshot_id)
        self._lossy(lambda coordinator: coordinator.commits.commit_lake_snapshot(request))

    def report_progress(self, assignment: Assignment, phase: Phase, splits_done: int, splits_total: int) -> None:
        """Not looked at."""

    def _lossy(self, call):  # type: ignore[no-untyped-def]
        """Repeats the call as the real transport does; at times it gives up, as a stopping tierer does."""
        while True:
            if not self._simulation.lost():
                answer = call(self._simulation.coordinator)
                if not self._simulation.lost():
                    return answer
            if self._simulation.random.random() < 0.2:
                raise ServiceUnreachable("the coordinator does not answer")


def recorded_everywhere(simulation: Simulation) -> list[RecordedLakeSnapshot | None]:
    """What coordinator and cluster remember of the lake."""
    [record] = simulation.coordinator.book.live()
    return [record.lake.recorded, simulation.cluster.recorded.get(TABLE.table_id)]
