"""Anything may happen in any order: two tierers, lost and late messages, restarts, drops. What must hold then does.

Each rule is one thing that a tierer, a user, time or fate does; invariants are checked after every one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.background import tick
from support.lakes.memory_lake import Request
from support.operators import cancel, pause, resume
from support.upkeep.upkeep_world import UpkeepWorld, upkeep_stats, upkept_table
from support.worlds.coordinator_world import START
from tiering import errors
from tiering.coordinator.decisions.records import CommitState
from tiering.coordinator.server.coordinator import Coordinator
from tiering.model.rounds import RoundState
from tiering.model.states import LASTING, TRANSITIONS, TableState
from tiering.model.tables import BucketKey, TablePath
from tiering.model.upkeep import UpkeepOrder
from tiering.rpc.v1 import coordinator_pb2 as pb

TIERERS = st.sampled_from(["one", "two"])


class CoordinatorMachine(RuleBasedStateMachine):
    """One table; `held` are commit requests and acks on their way, which may arrive at any time or never."""

    @initialize()
    def begin(self) -> None:
        self.world = UpkeepWorld(tables=(upkept_table(),))
        self.tierers = {name: self.world.process(f"{name}-0", name) for name in ("one", "two")}
        self.processes = 0
        self.requests: list[Request] = []
        self.acks: list[pb.CommitLakeSnapshotRequest] = []
        self.granted: set[str] = set()
        self.epoch = 0
        self.tiered = 0
        self.seen = 0

    @rule(records=st.integers(1, 3), bucket=st.integers(0, 1))
    def append(self, records: int, bucket: int) -> None:
        self.world.append(records, bucket)

    @rule(seconds=st.sampled_from([0.5, 5, 119, 180, 400]))
    def time_passes(self, seconds: float) -> None:
        self.world.later(seconds)

    @rule(days=st.sampled_from([-1_000, 0, 1_000]))
    def the_clock_is_set(self, days: int) -> None:
        steady = START + timedelta(milliseconds=self.world.clock.elapsed_ms)
        self.world.clock.wall = steady + timedelta(days=days)

    @rule(name=TIERERS)
    def ask(self, name: str) -> None:
        self.tierers[name].beat(request=True)

    @rule(name=TIERERS)
    def ask_and_lose_the_answer(self, name: str) -> None:
        tierer = self.tierers[name]
        self.world.coordinator.heartbeats.handle(tierer.message(request=True))

    @rule(name=TIERERS)
    def renew(self, name: str) -> None:
        tierer = self.tierers[name]
        for answer in tierer.beat().tiering_table_resp:
            if answer.HasField("error") and answer.cancel:
                tierer.running = {key: info for key, info in tierer.running.items() if info.table_id != answer.table_id}

    @rule(name=TIERERS)
    def forget(self, name: str) -> None:
        """The process is killed and starts again under its name."""
        self.processes += 1
        self.tierers[name] = self.world.process(f"{name}-{self.processes}", name)

    @rule(name=TIERERS)
    def plan(self, name: str) -> None:
        for info in self.tierers[name].running.values():
            self._quietly(lambda info=info: self.tierers[name].plan(info))  # type: ignore[misc]

    @rule(name=TIERERS)
    def fence(self, name: str) -> None:
        tierer = self.tierers[name]
        for info in tierer.running.values():
            request = tierer.prepare(info, () if info.HasField("upkeep") else None)
            if info.round_id not in self.granted and tierer.begin(info, request).granted:
                self.granted.add(info.round_id)
                self.requests.append(request)

    @rule(name=TIERERS, records=st.integers(1, 3))
    def get_as_far_as_the_grant(self, name: str, records: int) -> None:
        """The way to where it gets interesting, in one step."""
        self.switch_the_lake(enabled=True)
        self.pause_or_resume(resume)
        self.world.append(records)
        self.renew(name)
        self.world.due()
        self.tierers[name].beat(request=True)
        self.plan(name)
        self.fence(name)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def a_commit_arrives(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.requests))
        self.requests.remove(request)
        self.world.lake.receive(request)

    @rule(name=TIERERS)
    def send_ack(self, name: str) -> None:
        view = self.world.lake.view(self.world.table.path)
        for info in self.tierers[name].running.values():
            if view is not None and view.marker is not None:
                self.acks.append(self.tierers[name].ack_message(info))

    @precondition(lambda self: self.acks)
    @rule(data=st.data(), twice=st.booleans())
    def an_ack_arrives(self, data: st.DataObject, twice: bool) -> None:
        number = data.draw(st.integers(0, len(self.acks) - 1))
        message = self.acks[number] if twice else self.acks.pop(number)
        self._quietly(lambda: self.world.coordinator.commits.commit_lake_snapshot(message))

    @precondition(lambda self: self.requests)
    @rule(name=TIERERS, late=st.booleans())
    def a_commit_arrives_and_its_ack_is_under_way(self, name: str, late: bool) -> None:
        request = self.requests.pop()
        if self.world.lake.receive(request):
            self.send_ack(name)
            if not late and self.acks:
                # The network may still deliver this one again, much later.
                message = self.acks[-1]
                self._quietly(lambda: self.world.coordinator.commits.commit_lake_snapshot(message))

    @rule(name=TIERERS)
    def a_whole_round(self, name: str) -> None:
        self.get_as_far_as_the_grant(name, 1)
        if self.requests:
            self.a_commit_arrives_and_its_ack_is_under_way(name, late=False)
        self.finish(name, empty=False, forced=False)

    @rule(name=TIERERS, empty=st.booleans(), forced=st.booleans())
    def finish(self, name: str, empty: bool, forced: bool) -> None:
        tierer = self.tierers[name]
        reports = tuple(tierer.about(info, empty=empty, forced=forced, stats=upkeep_stats(5)) for info in tierer.running.values())
        tierer.running.clear()
        tierer.beat(finished=reports)

    @rule()
    def its_files_get_small(self) -> None:
        self.world.degrade()

    @rule(rewrites=st.booleans())
    def a_caller_wants_upkeep(self, rewrites: bool) -> None:
        order = UpkeepOrder(rewrite=rewrites, manifests=not rewrites)
        self._quietly(lambda: self.world.ask_for_upkeep(order))

    @rule(pauses=st.booleans())
    def pause_or_resume_upkeep(self, pauses: bool) -> None:
        self._quietly(lambda: self.world.pause_upkeep(pauses=pauses))

    @rule(name=TIERERS)
    def get_as_far_as_the_grant_of_an_upkeep_round(self, name: str) -> None:
        self.a_whole_round(name)
        self.pause_or_resume_upkeep(pauses=False)
        self.its_files_get_small()
        self.tierers[name].beat(request=True)
        self.plan(name)
        self.fence(name)

    @rule(name=TIERERS, retryable=st.booleans(), fenced=st.booleans(), stopped=st.booleans())
    def fail(self, name: str, retryable: bool, fenced: bool, stopped: bool) -> None:
        for info in list(self.tierers[name].running.values()):
            self.tierers[name].fail(info, error_retryable=retryable, fenced=fenced, tierer_stopped=stopped)

    @rule(caller=st.sampled_from(["alice", "bob"]))
    def call(self, caller: str) -> None:
        self._quietly(lambda: self.world.call(caller=caller, wait=False))

    @rule(request=st.sampled_from([pause, resume]))
    def pause_or_resume(self, request: Callable[[Coordinator, TablePath, str], None]) -> None:
        self._quietly(lambda: request(self.world.coordinator, self.world.table.path, "alice"))

    @rule()
    def cancel(self) -> None:
        for record in self.world.coordinator.table_records.live():
            if record.round is not None and record.round.state is not RoundState.QUEUED:
                cancelled = cancel(self.world.coordinator, record.round.round_id, "alice")
                assert not (cancelled and record.granted)

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @rule(enabled=st.sampled_from([True, True, True, False]))
    def switch_the_lake(self, enabled: bool) -> None:
        info = self.world.cluster.by_path[self.world.table.path]
        self.world.cluster.by_path[info.path] = replace(info, lake_enabled=enabled)
        tick(self.world.coordinator)

    @rule()
    def a_compaction(self) -> None:
        self.world.lake.foreign_commit(self.world.table.path)

    @invariant()
    def every_change_of_state_is_legal_and_on_record(self) -> None:
        events = self.world.store.events(10_000)
        fresh = [event for event in events if (event.event_id or 0) > self.seen]
        self.seen = max((event.event_id or 0 for event in events), default=0)
        for event in fresh:
            if "to" in event.details:
                assert (event.details["from"], event.details["to"]) in TRANSITIONS

    @invariant()
    def what_is_shown_is_stored(self) -> None:
        stored = {record.table_id: record for record in self.world.store.load()}
        for record in self.world.coordinator.table_records.all().values():
            known = stored[record.table_id]
            assert (known.state, known.tiering_epoch, known.lake) == (record.state, record.tiering_epoch, record.lake)

    @invariant()
    def epochs_only_grow_and_each_has_its_own_round(self) -> None:
        for record in self.world.coordinator.table_records.all().values():
            assert record.tiering_epoch >= self.epoch
            self.epoch = record.tiering_epoch
        rounds = self.world.store.rounds(limit=10_000)
        assert len({(row.table_id, row.tiering_epoch) for row in rounds}) == len(rounds)

    @invariant()
    def at_most_one_round_is_open_and_only_it_may_be_unresolved_for_long(self) -> None:
        open_rounds = [row for row in self.world.store.rounds(limit=10_000) if not row.state.is_final]
        assert len(open_rounds) <= 1
        for record in self.world.coordinator.table_records.live():
            under_way = record.state in (TableState.PENDING, TableState.TIERING)
            assert under_way == bool(open_rounds)
            if under_way:
                assert record.round == open_rounds[0]
                assert record.state is (TableState.TIERING if record.round.state is RoundState.RUNNING else TableState.PENDING)
        prepared = [row for row in self.world.store.commits(limit=10_000) if row.state is CommitState.PREPARED]
        assert {row.round_id for row in prepared} <= {row.round_id for row in open_rounds}

    @invariant()
    def an_upkeep_round_keeps_what_is_on_record_of_the_tiering_as_long_as_it_runs(self) -> None:
        for record in self.world.coordinator.table_records.live():
            assert (record.upkeep.before is not None) == record.upkeep_runs
            assert record.round is None or record.upkeep_runs or record.round.upkeep is None
            if record.upkeep_runs:
                assert record.pause is None or record.granted
                assert record.consecutive_failures == 0

    @invariant()
    def every_offset_is_once_in_the_lake(self) -> None:
        ranges = sorted(self.world.lake.rows(self.world.table.path))
        reached = {BucketKey(None, number): 0 for number in (0, 1)}
        for bucket, start, stop, _ in ranges:
            assert start == reached[bucket]
            reached[bucket] = stop

    @invariant()
    def a_table_is_only_seen_in_a_state_that_lasts(self) -> None:
        assert all(record.state in (None, *LASTING) for record in self.world.coordinator.table_records.all().values())
        assert all(record.state in (None, *LASTING) for record in self.world.store.load())

    @invariant()
    def a_table_that_fails_shows_why_and_fences_that_repeat_are_counted(self) -> None:
        for record in self.world.coordinator.table_records.live():
            assert record.state is not TableState.FAILED or record.error is not None
            if record.consecutive_fences > 1:
                assert record.error is not None
                assert record.consecutive_failures > 0
                assert record.error_count > 0

    @invariant()
    def records_are_never_ahead_of_the_lake_and_never_go_back(self) -> None:
        view = self.world.lake.view(self.world.table.path)
        in_lake = {} if view is None or view.marker is None else {key: at.tiered for key, at in view.marker.buckets.items()}
        record = self.world.coordinator.table_records.all()[self.world.table.table_id]
        cluster = self.world.cluster.recorded.get(record.table_id)
        copies = [copy for copy in (record.lake.recorded, cluster) if copy is not None]
        for copy in copies:
            assert all(offset <= in_lake.get(bucket, 0) for bucket, offset in copy.offsets.items())
        tiered = sum(record.lake.recorded.offsets.values()) if record.lake.recorded else 0
        assert tiered >= self.tiered
        self.tiered = tiered

    @invariant()
    def a_commit_in_the_lake_is_never_called_aborted(self) -> None:
        table = self.world.lake.tables.get(self.world.table.path)
        landed = {marker.round_id for marker in table.markers.values()} if table else set()
        aborted = {row.round_id for row in self.world.store.commits(limit=10_000) if row.state is CommitState.ABORTED}
        assert not landed & aborted
        pending = {request.marker.round_id for request in self.requests}
        for round_id in aborted & pending:
            request = next(candidate for candidate in self.requests if candidate.marker.round_id == round_id)
            assert table is not None
            assert request.tiered != self.world.lake.tiered(table), "a grant is given up only when it cannot land any more"

    def teardown(self) -> None:
        self.world.coordinator.close()

    @staticmethod
    def _quietly(act: Callable[[], object]) -> None:
        """Refusals are answers too; anything else is a defect."""
        with contextlib.suppress(errors.Fenced, errors.UnknownTable, errors.TablePaused, errors.LakeDisabled):
            act()


TestCoordinatorMachine = CoordinatorMachine.TestCase
TestCoordinatorMachine.settings = settings(stateful_step_count=40)
