"""A whole deployment in one thread, driven by a seed: the real coordinator core and the real round machine over a cluster, a lake
and a store in memory. Processes die and come back under their names, answers get lost, requests arrive late, users compact and
expire, rename the lake table and have a new one made in the same folder (`reconcile_lake(retier)`), the wall clock is set while the
coordinator runs and between its starts, an attacker forges messages with the names that SQL shows, operators cancel rounds and fence
processes that live on, and the real sweep deletes files while all of that goes on between its looks at the lake.

Safety is checked after every step, liveness by `heal`: with the faults switched off everything ends up in the lake.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from support.background import in_turns, tick
from support.clusters.memory_cluster import MemoryCluster, log_table
from support.lake_kinds.simulated_lake import SimulatedLake
from support.lakes.memory_lake import MemoryTable
from support.lakes.swept_lake import SweptMemoryLake
from support.simulated.granted_rounds import GrantedRounds
from support.worlds.leases import keeper
from support.worlds.memory_store import MemoryStore
from support.worlds.simulated_effects import SeededIds, SimulatedClock, SimulatedTransport
from tiering.coordinator.calls.cancel_tiering import cancel_tiering
from tiering.coordinator.calls.fence_tierer import fence_tierer
from tiering.coordinator.calls.reconcile_lake import reconcile_lake
from tiering.coordinator.decisions.change import TIERER_FENCED
from tiering.coordinator.decisions.records import to_text
from tiering.coordinator.lake_repair.sweeper import Sweeper
from tiering.coordinator.memory.tierer_registry import process_digest
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.server.coordinator import Coordinator
from tiering.errors import CannotReconcile, CommitOutcomeUnknown, Fenced, InvalidArgument, LakewardError, PermanentTieringError
from tiering.model.rounds import Assignment, RecordedLakeSnapshot, RoundState
from tiering.model.states import TableState
from tiering.model.tables import BucketKey, TablePath
from tiering.procedures.cancel_tiering import CancelTiering
from tiering.procedures.fence_tierer import FenceTierer
from tiering.procedures.reconcile_lake import ReconcileLake
from tiering.procedures.sweep_lake import SweepLake
from tiering.round.messages import RoundReport, renewal_to_pb, report_to_pb
from tiering.round.ports import SplitTask, TaskOutcome, WorkLimits
from tiering.round.progress import RoundMeter
from tiering.round.runner import NO_LIMIT_MS, RoundEnvironment, RoundRunner
from tiering.round.steps.actions import RoundOutcome
from tiering.round.tasks.inline_runner import InlineTaskRunner
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.rpc.v1.common_pb2 import PbRecordedSnapshot
from tiering.wire.model_codecs import ASSIGNMENT, OFFSETS

SERVICE_TIMEOUT_MS = 10_000
FRESHNESS_MS = 1_000
TABLE = replace(log_table(), freshness_ms=FRESHNESS_MS)
KEEP_ROUNDS = 2
"""Kept rounds: few enough that the sweep meets files of forgotten rounds."""
SWEEP_SHARE = 0.12
KEPT_LATE_BEATS = 4
RENAMED_SHARE = 0.8
LOST = frozenset({"LakeTableReplaced", "MarkerLost", "RecordAheadOfLake"})
"""Errors with which a round may stop for good, for a lake table that was renamed, or that a reconciliation left when it died."""
LAKE_FAULTS = ("ok", "ok", "ok", "answer lost", "lost", "late")


class SimulatedDeath(BaseException):
    """The process is gone: passes every handler."""


@dataclass
class SimulatedTierer:
    """One tierer process: at most one round, and reports that were not answered yet. Its start is told by a clock of no use."""

    tierer_id: str
    incarnation: str
    started_at_ms: int = 0
    sequence: int = 0
    running: tuple[Assignment, RoundRunner] | None = None
    outbox: list[RoundReport] = field(default_factory=list)


class HurriedTaskRunner(InlineTaskRunner):
    """At times a round's time is over as soon as its work has begun, and else never: no clock runs on while the simulator works."""

    def __init__(self, chance: random.Random) -> None:
        self._random = chance

    def run(self, round_id: str, tasks: Sequence[SplitTask], limits: WorkLimits, meter: RoundMeter) -> Sequence[TaskOutcome]:
        is_over = limits.budget_ms < NO_LIMIT_MS and self._random.random() < 0.2
        return super().run(round_id, tasks, replace(limits, budget_ms=0 if is_over else NO_LIMIT_MS), meter)


class Simulation:
    """See the module. `step` does one random thing."""

    outages: tuple[type[LakewardError], ...] = ()
    """Errors that files may bring about at any time, and that pass by themselves."""
    table = TABLE
    """The first table of the cluster."""
    inline_round_bytes = 0
    """Size limit of inline rounds, and of the bytes that a round merges."""

    def __init__(
        self, seed: int, tierers: int = 2, lake: SweptMemoryLake | SimulatedLake | None = None, options: Mapping[str, str] | None = None
    ) -> None:
        self.random = random.Random(seed)
        self.clock, self.ids = SimulatedClock(), SeededIds()
        self.cluster = MemoryCluster(replace(self.table, properties=options or {}))
        self.lake, self.store = lake or SweptMemoryLake(), MemoryStore()
        self.lake.faults, self.lake.now = self._lake_fault, self.clock.now
        self.cluster.before_rewind = self._dies
        self.faulty = True
        self.tierers = [SimulatedTierer(f"tierer-{number}", self.ids.new_id()) for number in range(tierers)]
        self.late_beats: list[pb.LakeTieringHeartbeatRequest] = []
        self.outcomes: Counter[str] = Counter()
        self.renamed = 0
        self._events_checked = 0
        self._finished: set[tuple[int, str]] = set()
        self.fenced: set[tuple[str, str]] = set()
        self.granted = GrantedRounds()
        self.broken: str | None = None
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
        records, cluster_id = self.coordinator.table_records, self.cluster.cluster_id
        parts = self.coordinator.call_parts
        sweeper = Sweeper(records, Lakes(self.cluster, lambda _: self.lake), parts.candidates, cluster_id, parts.read_snapshots)
        self.lake.meanwhile = self._meanwhile
        try:
            results = sweeper.sweep(SweepLake(None, 0, False, caller="alice"))
        finally:
            self.lake.meanwhile = lambda: None
        for result in results:
            fenced = result.error is not None and "Fenced" in result.error  # a second coordinator took over during the sweep
            error_class = "" if result.error is None else result.error.split(":")[0]
            lost = self.renamed > 0 and error_class in LOST
            assert result.error is None or fenced or lost or error_class in {outage.__name__ for outage in self.outages}, result
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
            lambda: self._rename_lake_table(): 1,
            lambda: self.reconcile(): 4,
            lambda: self._pass_time(SERVICE_TIMEOUT_MS + 1): 2,
            lambda: self._kill(tierer): 2,
            lambda: self._fence(tierer): 1,
            lambda: self._cancel(): 1,
            lambda: self._restart_coordinator(): 1,
            lambda: self._set_the_clock(): 1,
            lambda: self._forge(): 3,
            lambda: self._deliver_late_beat(): 2,
        }
        self.random.choices(list(things), weights=list(things.values()))[0]()

    def _rename_lake_table(self) -> None:
        if TABLE.path in self.lake.tables and self.random.random() < RENAMED_SHARE:
            self.renamed += 1
            self.lake.rename(TABLE.path, TablePath("sales", f"former-{self.renamed}"))

    def reconcile(self) -> None:
        """A user who reads the error of a table that failed for good does what it says; the coordinator may die over it."""
        [record] = self.coordinator.table_records.live()
        if record.error is None or record.error.error_class not in LOST or record.state is not TableState.FAILED:
            return
        assert "'retier')" in record.error.hint, f"{record.error}"
        meanwhile, self.lake.meanwhile = self.lake.meanwhile, lambda: None  # it holds the table's lock: in one thread, acks would hang
        try:
            done = reconcile_lake(self.coordinator.call_parts, ReconcileLake(TABLE.path, "retier", caller="alice"))
            assert done.records_left_out == 0
            self.outcomes[done.outcome] += 1
        except (CommitOutcomeUnknown, CannotReconcile, *self.outages) as error:
            self.outcomes[error.error_class] += 1
        except SimulatedDeath:
            self.outcomes["died while reconciling"] += 1
            self._restart_coordinator()
        finally:
            self.lake.meanwhile = meanwhile

    def heal(self, limit: int = 400) -> None:
        """No more faults: within `limit` turns the lake has everything. Late requests arrive at the very end, too late."""
        self.faulty = False
        for tierer in [tierer for tierer in self.tierers if self._is_fenced(tierer)]:
            self._kill(tierer)
        for _ in range(limit):
            if self.tiered() == self.ends():
                break
            self.reconcile()
            for tierer in self.tierers:
                self._beat(tierer)
                while tierer.running is not None:
                    self._advance(tierer)
                self._beat(tierer)
            self._pass_time(FRESHNESS_MS)
            self.check()
        assert self.tiered() == self.ends(), f"not everything was tiered: {self.tiered()} of {self.ends()}; {self.outcomes}"
        [record] = self.coordinator.table_records.live()
        assert not record.lake.backlog or record.lake.offsets != to_text(self.ends()), "the backlog outlives its records"
        while self.lake.late:
            self.lake.deliver_late()
            self.check()

    def check(self) -> None:
        """Safety: conservation per bucket, one snapshot a round, a chain of markers, never beyond the log, at most one running round;
        no record ahead of the lake, for the log may be cut up to it; and no file deleted that a snapshot names or that a commit
        names which may still land.
        """
        self._check_records()
        self._check_backlog()
        for path in self.lake.tables:
            assert not self.lake.missing(path), f"a snapshot of {path} or a late commit lacks its files"
        for tierer in self.tierers:
            lacks = self._may_still_commit(tierer) - self.lake.files.keys()
            assert not lacks, f"the suspended {tierer.tierer_id} lacks {lacks}"
        table = self.lake.tables.get(TABLE.path)
        if table is None or table.head is None:
            return
        self._check_rows(table)
        rounds = Counter(snapshot.round_id for snapshot in table.snapshots.values() if snapshot.round_id is not None)
        assert all(count == 1 for count in rounds.values()), rounds
        self._check_chain(table)
        assert self.broken is None, self.broken

    def _note_grant(self, assignment: Assignment) -> None:
        """A round takes an error for a failure: what is wrong is kept for `check`."""
        self.broken = self.broken or self.granted.complaint(assignment, self.store.load())

    def _check_backlog(self) -> None:
        """The backlog of a bucket finishes once per start, and only when the lake has had all of it."""
        new = self.store.events_after(self._events_checked)
        for event in new:
            self._events_checked = event.event_id or 0
            if event.event_type == "BACKLOG_BEGIN":
                self.outcomes[f"backlog {event.details['cause']}"] += 1
            elif event.event_type == "BACKLOG_FINISH":
                name = (event.details["start"], event.details["bucket"])
                assert name not in self._finished, f"the backlog of {name} finished twice"
                self._finished.add(name)
        record = self.coordinator.table_records.all()[TABLE.table_id]
        for bucket, stop in (record.lake.backlog or {}).items():
            assert (record.lake.backlog_starts, bucket) not in self._finished, f"the backlog of bucket {bucket} goes on after its end"
            assert (record.lake.offsets or {}).get(bucket, 0) < stop, f"the backlog of bucket {bucket} does not end"

    def _check_records(self) -> None:
        """Records are of the lake table that is there, or of one that it was renamed to, and never ahead of it."""
        reached_by = [self._reached(path) for path in self.lake.tables]
        for recorded in recorded_everywhere(self):
            if recorded is not None:
                held = any(all(offset <= reached[bucket] for bucket, offset in recorded.offsets.items()) for reached in reached_by)
                assert held, f"{recorded} is ahead of {reached_by}"
        uuid = self.coordinator.table_records.all()[TABLE.table_id].lake.table_uuid
        assert uuid is None or uuid in {table.uuid for table in self.lake.tables.values()}, f"{uuid} is no lake table"

    def _may_still_commit(self, tierer: SimulatedTierer) -> set[str]:
        """The files that a tierer will name in its commit, if it is granted one or still can be, and the lake would take it."""
        if tierer.running is None:
            return set()
        assignment, runner = tierer.running
        state = runner._state
        record = self.coordinator.table_records.get(TABLE.table_id)
        owns = record is not None and record.running is not None and record.running.round_id == assignment.round_id
        table, base = self.lake.tables.get(TABLE.path), None if state.base is None else state.base.view
        tiered = None if table is None else self.lake.tiered(table)
        uuid = None if table is None else table.uuid
        if state.committable is None or not (runner.granted or owns) or base is None or state.failure is not None:
            return set()
        if (base.table_uuid, base.tiered) != (uuid, tiered):
            return set()
        return self.lake.files_of(state.committable)

    def _check_rows(self, table: MemoryTable) -> None:
        assert table.head is not None
        tiered = self.lake.tiered(table)
        assert tiered is not None
        marker, ends = table.markers[tiered], self.ends()
        for bucket, end in ends.items():
            ranges = sorted((start, stop) for at, start, stop, _ in table.rows[table.head] if at == bucket)
            reached = 0
            for start, stop in ranges:
                assert start == reached, f"bucket {bucket}: {ranges}"
                reached = stop
            tiered = marker.buckets[bucket].tiered if bucket in marker.buckets else 0
            assert tiered == reached <= end

    def _check_chain(self, table: MemoryTable) -> None:
        markers = list(table.markers.values())
        for before, after in zip([None, *markers], markers, strict=False):
            assert after.base_round_id == (None if before is None else before.round_id)

    def ends(self) -> dict[BucketKey, int]:
        return {bucket: end for bucket, (_, end) in self.cluster.logs[TABLE.table_id].items()}

    def tiered(self) -> dict[BucketKey, int]:
        return self._reached(TABLE.path)

    def _reached(self, path: TablePath) -> dict[BucketKey, int]:
        reached = dict.fromkeys(self.ends(), 0)
        for bucket, _, stop, _ in self.lake.rows(path):
            reached[bucket] = max(reached[bucket], stop)
        return reached

    def _start_coordinator(self) -> Coordinator:
        options = CoordinatorOptions(
            service_timeout_ms=SERVICE_TIMEOUT_MS, backoff_max_ms=5_000, min_round_duration_ms=1, keep_rounds=KEEP_ROUNDS
        )
        coordinator = Coordinator(self.store, self.cluster, lambda _: self.lake, options, self.clock, self.ids, self.random.random)
        self._pool = in_turns(coordinator)
        self._tick(coordinator)
        return coordinator

    def _tick(self, coordinator: Coordinator) -> None:
        tick(coordinator)
        self._pool.run()

    def _restart_coordinator(self) -> None:
        self.coordinator.close()
        self.coordinator = self._start_coordinator()

    def _pass_time(self, milliseconds: int) -> None:
        self.clock.ms += milliseconds
        self._tick(self.coordinator)

    def _append(self) -> None:
        self.cluster.append(TABLE, self.random.randrange(TABLE.bucket_count), self.random.randint(1, 8))

    def _kill(self, tierer: SimulatedTierer) -> None:
        """The process is gone; another takes its place, at times under its name."""
        self.outcomes["killed"] += 1
        index = self.tierers.index(tierer)
        name = tierer.tierer_id if self.random.random() < 0.5 else self.ids.new_id()
        self.tierers[index] = SimulatedTierer(name, self.ids.new_id(), self.random.randrange(1 << 40))

    def _fence(self, tierer: SimulatedTierer) -> None:
        """An operator takes the processes of a name out of service, which may live on; usually they are replaced some time later."""
        try:
            fence_tierer(self.coordinator.call_parts, FenceTierer(tierer.tierer_id, caller="alice"))
        except InvalidArgument:  # no tierer of that name is known
            return
        [event] = [event for event in self.store.events(1) if event.event_type == TIERER_FENCED]
        self.fenced |= {(tierer.tierer_id, digest) for digest in event.details["processes"]}
        self.outcomes["fenced by an operator"] += 1

    def _is_fenced(self, tierer: SimulatedTierer) -> bool:
        return (tierer.tierer_id, process_digest(tierer.incarnation)) in self.fenced

    def _fence_was_pruned(self, tierer: SimulatedTierer) -> bool:
        """Returns whether the fence was pruned, as after the clock was set years ahead: a coordinator that starts then does not know the
        fence."""
        digest = process_digest(tierer.incarnation)
        return not any(event.event_type == TIERER_FENCED and digest in event.details["processes"] for event in self.store.events())

    def _cancel(self) -> None:
        """An operator cancels the round that runs, if one does."""
        [record] = self.coordinator.table_records.live()
        if record.running is not None:
            result = cancel_tiering(self.coordinator.call_parts, CancelTiering(record.running.round_id, "why", caller="alice"))
            self.outcomes[result.outcome.value] += 1

    def _set_the_clock(self) -> None:
        """Years ahead, years back, or right again; at times the coordinator starts right after."""
        self.clock.wall_offset_ms = self.random.choice((-1, 0, 0, 0, 1)) * 4 * 365 * 86_400_000
        self.outcomes["clock set"] += 1
        if self.random.random() < 0.5:
            self._restart_coordinator()

    def _deliver_late_beat(self) -> None:
        """Delivers a heartbeat of a process that may be gone, while another may have the table of its name."""
        if self.late_beats:
            self.coordinator.heartbeats.handle(self.late_beats.pop(self.random.randrange(len(self.late_beats))))

    def _forge(self) -> None:
        """Sends messages of an attacker who knows the names of the running round, but not its incarnation."""
        record = self.coordinator.table_records.get(TABLE.table_id)
        if record is None or record.round is None:
            return
        named = {"table_id": record.table_id, "tiering_epoch": record.tiering_epoch, "round_id": record.round.round_id}
        far = OFFSETS.to_pb({bucket: end + 5 for bucket, end in self.ends().items()})
        ref = pb.PbRound(**named, tierer_id=record.round.tierer_id or "")
        commits, heartbeats = self.coordinator.commits, self.coordinator.heartbeats
        report = pb.PbHeartbeatReqForTable(**named, error_message="made up", error_retryable=False, passed_head=4_711)
        thief = pb.PbTierer(tierer_id=ref.tierer_id, sequence=2**63 - 1, started_at_ms=2**63 - 1)
        ack = pb.CommitLakeSnapshotRequest(round=ref, marker=PbRecordedSnapshot(lake_snapshot_id=4_711, offsets=far))
        messages: list[Callable[[], object]] = [
            lambda: commits.commit_lake_snapshot(ack),
            lambda: commits.record_plan(pb.RecordPlanRequest(round=ref, lake_table_uuid="made-up", planned_stops=far)),
            lambda: commits.begin_lake_commit(pb.BeginLakeCommitRequest(round=ref, base_tag=4_711, offsets=far)),
            lambda: heartbeats.handle(pb.LakeTieringHeartbeatRequest(tierer=thief, finished_tables=[report])),
            lambda: heartbeats.handle(pb.LakeTieringHeartbeatRequest(tierer=thief, failed_tables=[report])),
            lambda: heartbeats.handle(pb.LakeTieringHeartbeatRequest(tierer=thief, tiering_tables=[report], stopping=True)),
        ]
        self.outcomes["forged"] += 1
        try:
            self.random.choice(messages)()
        except (Fenced, *self.outages):
            pass
        except PermanentTieringError as error:  # an ack is read from the lake, whichever process sent it
            if self.renamed == 0 or error.error_class not in LOST:
                raise

    def _advance(self, tierer: SimulatedTierer) -> None:
        if tierer.running is None:
            return
        assignment, runner = tierer.running
        outcome = runner.advance()
        if outcome is not None:
            self._ended(tierer, assignment, outcome)

    def _ended(self, tierer: SimulatedTierer, assignment: Assignment, outcome: RoundOutcome) -> None:
        permanent = outcome.state is RoundState.FAILED and outcome.error is not None and not outcome.error.retryable
        lost = self.renamed > 0 and outcome.error is not None and outcome.error.error_class in LOST
        assert not permanent or lost, f"{outcome.error}"
        self.outcomes[outcome.state.value] += 1
        tierer.running = None
        tierer.outbox.append(RoundReport(assignment, outcome))

    def _beat(self, tierer: SimulatedTierer) -> None:
        """One heartbeat; its request or its answer may be lost."""
        tierer.sequence += 1
        running = [] if tierer.running is None else [tierer.running[0]]
        reports = list(tierer.outbox)
        request = pb.LakeTieringHeartbeatRequest(
            tierer=pb.PbTierer(
                tierer_id=tierer.tierer_id,
                sequence=tierer.sequence,
                started_at_ms=tierer.started_at_ms,
                slots=1,
                incarnation=tierer.incarnation,
            ),
            tiering_tables=[renewal_to_pb(assignment) for assignment in running],
            finished_tables=[report_to_pb(report) for report in reports if report.finished],
            failed_tables=[report_to_pb(report) for report in reports if not report.finished],
            request_table=not running,
        )
        if self._lost():
            self.late_beats = [*self.late_beats, request][-KEPT_LATE_BEATS:]
            return
        answer, _ = self.coordinator.heartbeats.handle(request)
        if self._lost():
            return
        tierer.outbox = [report for report in tierer.outbox if report not in reports]
        if any(item.cancel for item in answer.tiering_table_resp) and tierer.running is not None:
            tierer.running[1].cancel("the coordinator cancelled the round")
        if answer.HasField("tiering_table"):
            assert not self._is_fenced(tierer) or self._fence_was_pruned(tierer), "a fenced process got a table"
            assignment = ASSIGNMENT.from_pb(answer.tiering_table, coordinator_epoch=answer.coordinator_epoch)
            tierer.running = (assignment, RoundRunner(self._world(tierer), assignment))

    def _world(self, tierer: SimulatedTierer) -> RoundEnvironment:
        name = (tierer.tierer_id, tierer.incarnation)
        transport = SimulatedTransport(*name, lambda: self.coordinator, self._lost, self._note_grant, self.random)
        inline = HurriedTaskRunner(self.random)
        limit = self.inline_round_bytes
        return RoundEnvironment(
            transport, self.cluster, lambda _: self.lake, inline, inline, self.clock, self.ids, limit, keeper(transport)
        )

    def _lost(self) -> bool:
        """Whether the next message gets lost."""
        return self.faulty and self.random.random() < 0.1

    def _dies(self, *_: object) -> None:
        if self.faulty and self.random.random() < 0.4:
            raise SimulatedDeath

    def _lake_fault(self) -> str:
        return self.random.choice(LAKE_FAULTS) if self.faulty else "ok"


def recorded_everywhere(simulation: Simulation) -> list[RecordedLakeSnapshot | None]:
    """Returns the lake records of coordinator and cluster."""
    [record] = simulation.coordinator.table_records.live()
    return [record.lake.recorded, simulation.cluster.recorded.get(TABLE.table_id)]
