"""A whole deployment in one thread, driven by a seed: the real coordinator core and the real round machine over a cluster, a lake
and a store in memory. Processes die, answers get lost, requests arrive late, users compact and expire, clocks jump, and the real
sweep deletes files while all of that goes on between its looks at the lake.

Safety is checked after every step, liveness by `heal`: with the faults switched off everything ends up in the lake.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

from support.leases import keeper
from support.memory_cluster import MemoryCluster, log_table
from support.memory_lake import MemoryTable, Range, ranges_of
from support.simulated_effects import SeededIds, SimulatedClock, SimulatedTransport
from support.swept_lake import SweptMemoryLake
from tiering.coordinator.api import SweepLake
from tiering.coordinator.coordinator import Coordinator
from tiering.coordinator.lakes import Lakes
from tiering.coordinator.memory_store import MemoryStore
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.sweep import Sweeper
from tiering.model import Assignment, BucketKey, RecordedLakeSnapshot, RoundState
from tiering.round.actions import RoundOutcome
from tiering.round.inline import InlineTaskRunner
from tiering.round.reports import Report, renewal
from tiering.round.requests import assignment_from_pb
from tiering.round.runner import RoundRunner, RoundWorld
from tiering.rpc.v1 import coordinator_pb2 as pb

SERVICE_TIMEOUT_MS = 10_000
FRESHNESS_MS = 1_000
TABLE = replace(log_table(), freshness_ms=FRESHNESS_MS)
KEEP_ROUNDS = 2
"""So few that the sweep meets files of rounds that were forgotten."""
SWEEP_SHARE = 0.06
LAKE_FAULTS = ("ok", "ok", "ok", "answer lost", "lost", "late")


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
        self.random, self.haste = random.Random(seed), random.Random(seed)
        self.clock, self.ids = SimulatedClock(), SeededIds()
        self.cluster, self.lake, self.store = MemoryCluster(TABLE), SweptMemoryLake(), MemoryStore()
        self.lake.faults, self.lake.now = self._lake_fault, self.clock.now
        self.faulty = True
        self.tierers = [SimulatedTierer(f"tierer-{number}", number) for number in range(tierers)]
        self.outcomes: Counter[str] = Counter()
        self.coordinator = self._start_coordinator()

    def step(self) -> None:
        """One random thing, then all safety checks."""
        if self.random.random() < SWEEP_SHARE:
            self.sweep()
        else:
            self._do_something()
        self.check()

    def sweep(self) -> None:
        """Without a guard, for no clock may be what protects a file; others go on meanwhile."""
        sweeper = Sweeper(self.coordinator.book, Lakes(self.cluster, lambda _: self.lake))
        self.lake.meanwhile = self._meanwhile
        try:
            results = sweeper.sweep(SweepLake(None, "alice", 0, False))
        finally:
            self.lake.meanwhile = lambda: None
        for result in results:
            assert result.error is None or "Fenced" in result.error, result  # a second coordinator took over during the sweep
            self.outcomes["swept"] += result.removed
            self.outcomes.update(result.kept)

    def _meanwhile(self) -> None:
        for _ in range(self.random.choice((0, 0, 0, 1, 4))):
            self._do_something()
            self.check()

    def _do_something(self) -> None:
        tierer = self.random.choice(self.tierers)
        things = {
            lambda: self._advance(tierer): 40,
            lambda: self._beat(tierer): 15,
            lambda: self._pass_time(self.random.choice((100, 500, 1_500))): 10,
            lambda: self._append(): 6,
            lambda: self.lake.deliver_late(): 4,
            lambda: self.lake.foreign_commit(TABLE.path): 3,
            lambda: self.lake.expire_snapshots(TABLE.path): 1,
            lambda: self._pass_time(SERVICE_TIMEOUT_MS + 1): 2,
            lambda: self._kill(tierer): 2,
            lambda: self._restart_coordinator(): 1,
        }
        self.random.choices(list(things), weights=list(things.values()))[0]()

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
        """Safety: conservation per bucket, one snapshot a round, a chain of markers, never beyond the log, at most one running round;
        and no file deleted that a snapshot names or that a commit names which may still land.
        """
        assert not self.lake.missing(TABLE.path), "a snapshot or a late commit lacks its files"
        for tierer in self.tierers:
            lacks = {file for *_, file in self._may_still_commit(tierer)} - self.lake.files.keys()
            assert not lacks, f"the suspended {tierer.tierer_id} lacks {lacks}"
        table = self.lake.tables.get(TABLE.path)
        if table is None or table.head is None:
            return
        self._check_rows(table)
        rounds = Counter(snapshot.round_id for snapshot in table.snapshots.values() if snapshot.round_id is not None)
        assert all(count == 1 for count in rounds.values()), rounds
        self._check_chain(table)
        running = [record for record in self.coordinator.book.live() if record.running is not None]
        assert len(running) <= 1

    def _may_still_commit(self, tierer: SimulatedTierer) -> tuple[Range, ...]:
        """What a tierer will name in its commit, if it is granted one or still can be, and the lake would take it."""
        if tierer.running is None:
            return ()
        assignment, runner = tierer.running
        state = runner._state
        record = self.coordinator.book.get(TABLE.table_id)
        owns = record is not None and record.running is not None and record.running.round_id == assignment.round_id
        table, base = self.lake.tables.get(TABLE.path), None if state.base is None else state.base.view
        tag = None if table is None else table.tag
        if state.committable is None or not (runner.granted or owns) or base is None or base.tag != tag or state.failure is not None:
            return ()
        return ranges_of(state.committable)

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
        options = CoordinatorOptions(
            service_timeout_ms=SERVICE_TIMEOUT_MS, backoff_max_ms=5_000, min_round_duration_ms=1, keep_rounds=KEEP_ROUNDS
        )
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
        if self._lost():
            return
        answer, _ = self.coordinator.heartbeats.handle(request)
        if self._lost():
            return
        tierer.outbox = [report for report in tierer.outbox if report not in told]
        if any(item.cancel for item in answer.tiering_table_resp) and tierer.running is not None:
            tierer.running[1].cancel("the coordinator cancelled the round")
        if answer.HasField("tiering_table"):
            assignment = assignment_from_pb(answer.tiering_table, answer.coordinator_epoch)
            if self.faulty and self.haste.random() < 0.1:  # work takes no simulated time: at times there is none for it
                assignment = replace(assignment, max_duration_ms=0)
            tierer.running = (assignment, RoundRunner(self._world(tierer), assignment))

    def _world(self, tierer: SimulatedTierer) -> RoundWorld:
        transport, inline = SimulatedTransport(tierer.tierer_id, lambda: self.coordinator, self._lost, self.random), InlineTaskRunner()
        return RoundWorld(transport, self.cluster, lambda _: self.lake, inline, inline, self.clock, self.ids, 0, keeper(transport))

    def _lost(self) -> bool:
        """Whether the next message gets lost."""
        return self.faulty and self.random.random() < 0.1

    def _lake_fault(self) -> str:
        return self.random.choice(LAKE_FAULTS) if self.faulty else "ok"


def recorded_everywhere(simulation: Simulation) -> list[RecordedLakeSnapshot | None]:
    """What coordinator and cluster remember of the lake."""
    [record] = simulation.coordinator.book.live()
    return [record.lake.recorded, simulation.cluster.recorded.get(TABLE.table_id)]
