"""A whole deployment of several tables in one thread, driven by a seed: the real coordinators and the real rounds over a simulated
cluster, lake, store and network, with users and operators beside them.

`step` does one random thing; while a split is read or a commit is under way others go on. Safety is checked as things happen
(`invariants`), liveness by `healing.heal`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from support.background import DeferredPool, in_turns, tick
from support.simulated.chance import Chance, PanicException, SimulatedDeath
from support.simulated.cluster import SimulatedCluster
from support.simulated.invariants import Invariants
from support.simulated.lake import SimulatedLake
from support.simulated.processes import LONG_LEASE_MS, SHORT_LEASE_MS, HandLeaseKeeper, TiererProcess, Wire, WireTransport, lease_keeper
from support.simulated.store import SimulatedStore
from support.worlds.memory_store import MemoryStore
from support.worlds.simulated_effects import SeededIds, SimulatedClock
from tiering import errors
from tiering.coordinator.decisions.change import TIERER_FENCED
from tiering.coordinator.decisions.upkeep.rounds import COORDINATOR
from tiering.coordinator.memory.store import Writes
from tiering.coordinator.memory.tierer_registry import process_digest
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.server.coordinator import Coordinator
from tiering.errors import Fenced, LakewardError, PermanentTieringError
from tiering.model.rounds import Assignment, RoundMode, RoundState
from tiering.model.tables import TablePath
from tiering.procedures.validate_table import CheckResult, ValidateTable
from tiering.round.messages import RoundReport
from tiering.round.runner import RoundEnvironment, RoundRunner
from tiering.round.steps.actions import RoundOutcome
from tiering.round.tasks.inline_runner import InlineTaskRunner
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.model_codecs import ASSIGNMENT

SERVICE_TIMEOUT_MS = 10_000
OPTIONS = CoordinatorOptions(service_timeout_ms=SERVICE_TIMEOUT_MS, backoff_max_ms=5_000, min_round_duration_ms=1, keep_rounds=6)
PATHS = tuple(TablePath("sales", name) for name in ("clicks", "orders", "stock"))
YEARS_MS = 4 * 365 * 86_400_000


class Deployment:
    """See the module. `outcomes` counts how rounds and CALLs ended. `short_leases`: they lapse at times, also within a read. `has_upkeep`:
    tiering rounds merge files, and their commits expire snapshots."""

    def __init__(self, seed: int, only: Collection[str] | None = None, *, short_leases: bool = True, has_upkeep: bool = False) -> None:
        self.lease_ttl_ms = SHORT_LEASE_MS if short_leases else LONG_LEASE_MS
        self.chance = Chance(seed, only)
        self.random = self.chance.random
        self.clock, self.ids = SimulatedClock(), SeededIds()
        self.outcomes: Counter[str] = Counter()
        self.cluster = SimulatedCluster(self.chance, self.clock)
        self.lake = SimulatedLake(self.chance, self.cluster.partition_names)
        self.lake.tag_moves_in_the_commit = seed % 4 != 3
        self.lake.now = self.clock.now
        self.lake.expires = self.cluster.auto_compaction = has_upkeep
        self._gave_way: set[str] = set()
        self.store = SimulatedStore(self.chance)
        self.cluster.snapshot_parts, self.cluster.supersedes = (2, True) if short_leases else (1, False)
        self.lake.fails_in_repairs = short_leases
        self.invariants = Invariants(self.cluster, self.lake)
        self.invariants.may_still_commit = self._may_still_commit
        self.store.on_write = self._written
        self.damaged: set[TablePath] = set()
        """Tables with which a user, or a loss of the cluster's, did what may stop them for good."""
        self.wire = Wire(self.chance, self._coordinator_of_a_message, self.coordinator_died)
        self.wire.on_grant = lambda assignment: self.invariants.granted(assignment, self.store.load())
        self.wire.excuse, self.wire.on_late_release = self.invariants.excuse, self.cluster.dropped_leases.add
        self.late_beats: list[pb.LakeTieringHeartbeatRequest] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self._depth = 0
        for number, path in enumerate(PATHS):
            self.create(path, primary_key=number == 2 or (number == 1 and seed % 3 == 0), partitioned=number == 1)
        self.former: Coordinator | None = None
        """A coordinator that does not know yet that it was replaced."""
        self._pools: list[DeferredPool] = []
        self.coordinator = self._start_coordinator()
        self.tierers = [self._process(f"tierer-{number}") for number in range(2)]
        self.lake.during_commits = self.cluster.during_reads = self._others_go_on

    def _written(self, writes: Writes) -> None:
        self.invariants.written(writes)
        gave_way = {row.round_id for row in writes.rounds if row.mode is RoundMode.UPKEEP and row.cancelled_by == COORDINATOR}
        for _ in gave_way - self._gave_way:
            self.chance.note("upkeep-gives-way")
        self._gave_way |= gave_way

    # --- tables

    def create(self, path: TablePath, *, primary_key: bool, partitioned: bool) -> None:
        """A new source table."""
        info = self.cluster.create(path, primary_key=primary_key, partitioned=partitioned)
        self.invariants.infos[info.table_id] = info
        for bucket in self.cluster.buckets(info):
            self.cluster.append_to(info, bucket, self.random.randint(0, 4))

    # --- coordinators

    def _start_coordinator(self) -> Coordinator:
        while True:
            try:
                jitter = self.random.random
                coordinator = Coordinator(
                    self.store, self.cluster, lambda _: self.lake, OPTIONS, self.clock, self.ids, jitter, validator=self._validate
                )
            except (LakewardError, SimulatedDeath):
                continue  # its supervisor starts it again
            self._pools = [in_turns(coordinator)]
            coordinator.commits.locks.wait_seconds = 0  # in one thread no other caller releases it meanwhile
            return coordinator

    def _validate(self, request: ValidateTable, started: Callable[..., None]) -> Sequence[CheckResult]:
        """In place of a child process that compares log and lake: how many rows the lake's head has."""
        path = request.path
        self.cluster.table(path)
        view, rows = self.lake.view(path), str(sum(stop - start for _, start, stop, _ in self.lake.rows(path)))
        head = None if view is None else view.head
        names = (path.database_name, path.table_name)
        return [CheckResult(self.clock.now(), *names, head, request.level.lower(), "counts", "table", rows, rows, True, None, 0)]

    def restart_coordinator(self, *, clean: bool = True) -> None:
        """The coordinator ends, or is gone, and another one takes over the store."""
        if clean:
            self.coordinator.close()
        self.former = None
        self.coordinator = self._start_coordinator()

    def coordinator_died(self) -> None:
        self.restart_coordinator(clean=False)

    def add_coordinator(self) -> None:
        """Another one takes the store over while the former still answers."""
        self.former, self.coordinator = self.coordinator, self._start_coordinator()

    def _coordinator_of_a_message(self) -> Coordinator:
        if self.former is not None and self.random.random() < 0.4:
            return self.former
        return self.coordinator

    def pass_time(self, milliseconds: int) -> None:
        """Time passes; every background loop runs once."""
        self.clock.ms += milliseconds
        self.cluster.collect_garbage()
        self.in_background(lambda: tick(self.coordinator))
        for pool in self._pools:
            self.in_background(pool.run)
        for tierer in self.tierers:
            if not tierer.asleep and tierer.leases is not None:
                self._keep_leases(tierer.leases)

    def in_background(self, work: Callable[[], object]) -> None:
        """Runs `work` like a background loop: failed work is retried later."""
        try:
            work()
        except SimulatedDeath:
            self.coordinator_died()
        except Fenced:
            if self.former is None:
                raise
        except LakewardError as error:
            self.invariants.excuse(error)  # it is logged, and tried again
        except PanicException:
            pass  # the same

    def _keep_leases(self, keeper: HandLeaseKeeper) -> None:
        if keeper.turn():
            self.invariants.leases_kept(keeper)

    # --- tierers

    def _process(self, tierer_id: str) -> TiererProcess:
        is_older = self.chance.strikes("tierer-older", 0.1)
        process = TiererProcess(tierer_id, None if is_older else self.ids.new_id(), started_at_ms=self.random.randrange(1 << 40))
        lease_id = f"{tierer_id}-{self.ids.new_id()}"
        process.leases = lease_keeper(WireTransport(process, self.wire), self.clock, lease_id, self.lease_ttl_ms)
        return process

    def replace_process(self, tierer: TiererProcess) -> TiererProcess:
        """Ends the tierer process and starts another one, sometimes under the same name."""
        name = tierer.tierer_id if self.random.random() < 0.5 else self.ids.new_id()
        self.tierers[self.tierers.index(tierer)] = process = self._process(name)
        return process

    def advance(self, tierer: TiererProcess) -> None:
        """One step of one of its rounds."""
        rounds = [item for item in tierer.running.items() if item[0] not in tierer.busy]
        if tierer.asleep or not rounds:
            return
        round_id, (assignment, runner) = self.random.choice(rounds)
        tierer.busy.add(round_id)
        try:
            outcome = runner.advance()
        finally:
            tierer.busy.discard(round_id)
        if outcome is not None and tierer.running.pop(round_id, None) is not None:
            self._round_ended(tierer, assignment, runner, outcome)

    def _round_ended(self, tierer: TiererProcess, assignment: Assignment, runner: RoundRunner, outcome: RoundOutcome) -> None:
        self.outcomes[outcome.state.value if assignment.upkeep is None else f"upkeep {outcome.state.value}"] += 1
        assert self.invariants.broken is None, self.invariants.broken
        if outcome.error is not None:
            self.outcomes[outcome.error.error_class] += 1
            assert self._is_explained(assignment, outcome.error), f"a round of {assignment.path} ended with {outcome.error!r}"
            permanent = isinstance(outcome.error, PermanentTieringError) and outcome.state is RoundState.FAILED
            assert not permanent or assignment.path in self.damaged, f"{outcome.error!r} of {assignment.path}, which no user damaged"
            self._check_left_files(assignment, runner, outcome)
        assert tierer.leases is not None
        tierer.leases.release(runner)
        tierer.outbox.append(RoundReport(assignment, outcome))

    def _is_explained(self, assignment: Assignment, error: LakewardError) -> bool:
        """Returns whether a round may end so: a repeated round only if its two processes could not be distinguished."""
        if error.error_class == "RoundRepeated":
            return self.invariants.rounds_of[assignment.round_id] is None
        is_named = hasattr(errors, error.error_class) and error.error_class != LakewardError.__name__
        return is_named or error.error_class == PanicException.__name__

    def _check_left_files(self, assignment: Assignment, runner: RoundRunner, outcome: RoundOutcome) -> None:
        """A round that fails before it sent anything deletes its own files."""
        is_shared = self.invariants.rounds_of[assignment.round_id] is None
        if runner._state.sent or runner.granted or outcome.state is not RoundState.FAILED or is_shared:
            return
        files = [name for name in self.lake.files if f"lakeward-{assignment.round_id}-" in name]
        assert not files, f"round {assignment.round_id} failed with {outcome.error!r} and left {files}"

    def _may_still_commit(self) -> Collection[str]:
        """The files of rounds that are granted their commit, or still can be, and that the lake would take."""
        names: set[str] = set()
        for tierer in self.tierers:
            for assignment, runner in tierer.running.values():
                if self._can_land(assignment, runner):
                    names |= self.lake.files_of(runner._state.committable)
        return names

    def _can_land(self, assignment: Assignment, runner: RoundRunner) -> bool:
        state, record = runner._state, self.coordinator.table_records.get(assignment.table_id)
        table, base = self.lake.tables.get(assignment.path), None if state.base is None else state.base.view
        owns = record is not None and record.running is not None and record.running.round_id == assignment.round_id
        if state.committable is None or base is None or table is None or state.failure is not None or not (runner.granted or owns):
            return False
        return (base.table_uuid, base.tiered) == (table.uuid, self.lake.tiered(table))

    def beat(self, tierer: TiererProcess) -> None:
        """One heartbeat, which may get lost, come late or twice; the same for its answer."""
        if tierer.asleep:
            return
        request, reports = tierer.heartbeat()
        if self.chance.strikes("request-lost", 0.06):
            self.late_beats = [*self.late_beats, request][-4:]
            return
        answer = self._deliver(request)
        if answer is not None and self.chance.strikes("request-repeated", 0.04):
            self._deliver(request)
        if answer is None or self.chance.strikes("answer-lost", 0.06):
            return
        tierer.outbox = [report for report in tierer.outbox if report not in reports]
        tierer.fenced = answer.fenced
        for item in answer.tiering_table_resp:
            refused = tierer.running.get(item.round_id)
            if refused is not None and (item.cancel or item.HasField("error")):
                refused[1].cancel("the coordinator refused the round")
        if answer.HasField("tiering_table"):
            self._begin(tierer, ASSIGNMENT.from_pb(answer.tiering_table, coordinator_epoch=answer.coordinator_epoch))

    def _begin(self, tierer: TiererProcess, assignment: Assignment) -> None:
        if assignment.round_id in tierer.running or len(tierer.running) >= tierer.slots or tierer not in self.tierers:
            return
        assert not self._is_fenced(tierer), f"the fenced {tierer.tierer_id} got round {assignment.round_id}"
        stored = MemoryStore.round(self.store, assignment.round_id)
        is_known = stored is None or stored.incarnation is not None
        self.invariants.handed_out(assignment.round_id, tierer.incarnation, is_known=is_known)
        tierer.running[assignment.round_id] = (assignment, RoundRunner(self._world(tierer), assignment))

    def _is_fenced(self, tierer: TiererProcess) -> bool:
        """Whether an operator took it out of service, as far as history goes back."""
        digest = None if tierer.incarnation is None else process_digest(tierer.incarnation)
        events = [event for event in self.store.events() if event.event_type == TIERER_FENCED]
        return any(event.details["tierer_id"] == tierer.tierer_id and digest in event.details["processes"] for event in events)

    def _world(self, tierer: TiererProcess) -> RoundEnvironment:
        assert tierer.leases is not None
        inline, transport = InlineTaskRunner(), WireTransport(tierer, self.wire)
        return RoundEnvironment(transport, self.cluster, lambda _: self.lake, inline, inline, self.clock, self.ids, 0, tierer.leases)

    def _deliver(self, request: pb.LakeTieringHeartbeatRequest) -> pb.LakeTieringHeartbeatResponse | None:
        """The answer; None if the coordinator has none."""
        coordinator = self._coordinator_of_a_message()
        try:
            return coordinator.heartbeats.handle(request)[0]
        except SimulatedDeath:
            self.coordinator_died()
        except Fenced:
            assert coordinator is not self.coordinator or coordinator.table_records.fenced is None, "the only coordinator is fenced"
            self.former = None if coordinator is self.former else self.former
        except LakewardError as error:
            self.invariants.excuse(error)  # of the store: the heartbeat is repeated
        return None

    def deliver_late_beat(self) -> None:
        """A lost heartbeat arrives after all, perhaps of a process that is gone."""
        if self.late_beats:
            self.chance.note("request-late")
            self._deliver(self.late_beats.pop(self.random.randrange(len(self.late_beats))))

    # --- all together

    def _others_go_on(self) -> None:
        """While something takes its time."""
        if self._depth or not self.chance.faulty or self.random.random() < 0.7:
            return
        self._depth += 1
        try:
            for _ in range(self.random.choice((1, 1, 4))):
                self.meanwhile()
        finally:
            self._depth -= 1

    def trace(self) -> str:
        """A digest of everything that coordinators and lake went through."""
        events = [(event.occurred_at, event.event_type, event.round_id) for event in reversed(self.store.events(limit=1_000_000))]
        lake = [(str(path), sorted(table.markers.items())) for path, table in sorted(self.lake.tables.items())]
        return hashlib.sha256(repr((events, lake, sorted(self.outcomes.items()), self.random.random())).encode()).hexdigest()
