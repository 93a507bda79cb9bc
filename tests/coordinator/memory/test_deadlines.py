"""A tick that looks only at what may be due brings what a look at every record would bring, at the same tick."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from support.clusters.memory_cluster import log_table
from support.operators import pause, resume
from support.worlds.coordinator_world import START, HandTierer, World
from support.worlds.memory_store import MemoryStore
from tiering import errors
from tiering.coordinator.decisions import round_lifecycle, table_lifecycle
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import Pause, QueuedCall, RoundRecord, TableRecord, Trigger
from tiering.coordinator.memory import record_index
from tiering.coordinator.memory.record_index import Deadlines, next_check
from tiering.coordinator.memory.store import Writes
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.server import coordinator
from tiering.model.rounds import RoundState
from tiering.model.states import TableState
from tiering.model.tables import TablePath

TABLES = 4
TABLE_IDS = st.integers(1, TABLES)
AWAKE = [state for state in TableState if state not in (TableState.NEW, TableState.INITIALIZED, TableState.TIERED)]


def overdue(ctx: Context, record: TableRecord) -> Change | None:
    """Returns the change that time brings to one record."""
    return round_lifecycle.expire(ctx, record) or table_lifecycle.due(ctx, record)


def expected(table_records: TableRecords) -> dict[int, TableState | None]:
    """The states that a look at every record now would bring."""
    expected = {record.table_id: overdue(table_records.context(), record) for record in table_records.live()}
    return {table_id: change.record.state for table_id, change in expected.items() if change is not None}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def moment(seconds: float) -> Moment:
    return Moment(at(seconds), at(seconds))


def scheduled(due: float, table_id: int = 1) -> TableRecord:
    """A table that rests until then: with so short a freshness it is due at its deadline."""
    return replace(
        TableRecord(table_id, "sales", f"t{table_id}", "LOG", "iceberg", 1, "", TableState.SCHEDULED, START), due_deadline=at(due)
    )


@st.composite
def records(draw: st.DrawFn) -> TableRecord:
    """Any mixture of what a first look depends on."""
    times = st.none() | st.integers(0, 9).map(at)
    state = draw(st.sampled_from(AWAKE))
    running = RoundRecord("r", 1, "sales", "t1", 1, 1, Trigger.SCHEDULE, RoundState.RUNNING, START, tierer_id="one")
    call = draw(st.none() | st.just(QueuedCall("r2", "ann", START)))
    return replace(
        scheduled(0),
        state=state,
        due_deadline=draw(times),
        retry_deadline=draw(times),
        heartbeat_deadline=draw(times),
        round=running if state in (TableState.TIERING, TableState.PENDING) else None,
        call=call,
        pause=draw(st.none() | times.map(lambda until: Pause("ann", None, START, until))),
    )


@given(records(), st.integers(0, 9))
def test_a_record_is_looked_at_exactly_from_when_time_changes_it(record: TableRecord, second: int) -> None:
    first = next_check(record)
    assert (overdue(Context(moment(second), 1), record) is not None) == moment(second).passed(first)


class TimeMachine(RuleBasedStateMachine):
    """Several tables, two tierers, a store whose writes fail, a user: ticks come whenever, and are held to the look at every record."""

    @initialize()
    def begin(self) -> None:
        self.patched = pytest.MonkeyPatch()
        self.patched.setattr(coordinator, "CHUNK", 2)
        self.store = FailingStore()
        paths = {number: TablePath("sales", f"t{number}") for number in range(1, TABLES + 1)}
        tables = (replace(log_table(number, path, buckets=1), freshness_ms=number * 20_000) for number, path in paths.items())
        self.world = World(tuple(tables), store=self.store)
        self.tierers = {name: HandTierer(self.world, name) for name in ("one", "two")}

    @rule(
        seconds=st.sampled_from([0, 0.5, 5, 20, 61, 119, 400]),
        wall_is_set_by=st.sampled_from([0, 0, 0, -300, 300]),
        failing=st.sampled_from([None, None, None, "before", "after"]),
    )
    def ticks(self, seconds: float, wall_is_set_by: int, failing: str | None) -> None:
        self.world.clock.advance(seconds)
        self.world.clock.wall += timedelta(seconds=wall_is_set_by)
        self.store.fail_next = failing
        with contextlib.suppress(errors.StoreError):
            self.world.coordinator.advance()
        self.store.fail_next = None
        for _ in range(2):
            self.one_tick()

    @invariant()
    def what_waits_and_runs_and_lies_where_is_known_without_a_look_at_all(self) -> None:
        table_records = self.world.coordinator.table_records
        for drafting in (contextlib.nullcontext, table_records.together):
            with table_records.changing(), drafting():
                live = table_records.live()
                waiting = sorted(table_records.waiting(), key=lambda record: record.table_id)
                assert waiting == [record for record in live if record.state is TableState.PENDING and record.pause is None]
                assert table_records.running() == [record for record in live if record.running is not None]
        assert table_records.work_waits() == bool(table_records.waiting())
        paths = [TablePath("sales", f"t{number}") for number in range(1, TABLES + 1)]
        assert [table_records.by_path(path) for path in paths] == [
            next((record for record in live if record.path == path), None) for path in paths
        ]

    def one_tick(self) -> None:
        table_records = self.world.coordinator.table_records
        with table_records.changing():  # after a write that failed: what was really stored
            wanted, before = expected(table_records), table_records.all()
        self.world.coordinator.advance()
        changed = {table_id: record.state for table_id, record in table_records.all().items() if record is not before.get(table_id)}
        assert changed == wanted

    @rule(name=st.sampled_from(["one", "two"]))
    def ask(self, name: str) -> None:
        self._quietly(lambda: self.tierers[name].beat(request=True))

    @rule(name=st.sampled_from(["one", "two"]), well=st.booleans(), forced=st.booleans(), retryable=st.booleans(), several=st.booleans())
    def report(self, name: str, well: bool, forced: bool, retryable: bool, several: bool) -> None:
        tierer = self.tierers[name]
        given_up = list(tierer.running.values())[: None if several else 1]
        for info in given_up:
            del tierer.running[info.round_id]
        failure = {"error_message": "no disk left", "error_class": "OSError", "error_retryable": retryable}
        reports = tuple(tierer.about(info, **({"empty": True, "forced": forced} if well else failure)) for info in given_up)
        self._quietly(lambda: tierer.beat(finished=reports) if well else tierer.beat(failed=reports))

    @rule(table_id=TABLE_IDS)
    def call(self, table_id: int) -> None:
        self._quietly(lambda: self.world.call(TablePath("sales", f"t{table_id}"), wait=False))

    @rule(table_id=TABLE_IDS, seconds=st.none() | st.sampled_from([1, 30, 200]))
    def pause(self, table_id: int, seconds: int | None) -> None:
        until = None if seconds is None else self.world.clock.now() + timedelta(seconds=seconds)
        self._quietly(lambda: pause(self.world.coordinator, TablePath("sales", f"t{table_id}"), "ann", until=until))

    @rule(table_id=TABLE_IDS)
    def resume(self, table_id: int) -> None:
        self._quietly(lambda: resume(self.world.coordinator, TablePath("sales", f"t{table_id}"), "ann"))

    @rule(table_id=TABLE_IDS, freshness_ms=st.sampled_from([1_000, 30_000, 90_000]), enabled=st.sampled_from([True, True, True, False]))
    def alter(self, table_id: int, freshness_ms: int, enabled: bool) -> None:
        path = TablePath("sales", f"t{table_id}")
        self.world.cluster.by_path[path] = replace(self.world.cluster.by_path[path], freshness_ms=freshness_ms, lake_enabled=enabled)
        self._quietly(self.world.coordinator.discovery.run)

    @rule(stored=st.booleans())
    def the_next_write_fails(self, stored: bool) -> None:
        self.store.fail_next = "after" if stored else "before"

    @rule()
    def restart(self) -> None:
        self.store.fail_next = None
        self.world.coordinator.close()
        self.world.coordinator = self.world.another()

    def teardown(self) -> None:
        self.patched.undo()
        self.world.coordinator.close()

    @staticmethod
    def _quietly(act: Callable[[], object]) -> None:
        with contextlib.suppress(errors.StoreError, errors.UnknownTable, errors.TablePaused, errors.LakeDisabled):
            act()


class FailingStore(MemoryStore):
    """A write may fail, before or after it was stored."""

    fail_next: str | None = None

    def apply(self, coordinator_epoch: int, writes: Writes) -> None:
        how, self.fail_next = self.fail_next, None
        if how != "before":
            super().apply(coordinator_epoch, writes)
        if how is not None:
            raise errors.StoreError("the disk is full")


TestTimeMachine = TimeMachine.TestCase
TestTimeMachine.settings = settings(stateful_step_count=40)


def test_a_hint_is_told_once_until_the_record_is_watched_again() -> None:
    hints = Deadlines()
    hints.watch([scheduled(5), scheduled(3, table_id=2), scheduled(9, table_id=3)])
    assert hints.take(moment(2.9)) == []
    assert hints.take(moment(5)) == [2, 1]
    assert hints.take(moment(5)) == []
    hints.watch([scheduled(4)])
    assert hints.take(moment(10)) == [1, 3]


def test_a_hint_may_come_too_early_and_never_too_late() -> None:
    hints = Deadlines()
    hints.watch([scheduled(5)])
    hints.watch([scheduled(7)])
    assert hints.take(moment(5)) == [1]
    hints.watch([scheduled(7)])
    hints.watch([scheduled(2)])
    assert hints.take(moment(2)) == [1]
    assert hints.take(moment(9)) == []


def test_a_removed_table_and_one_that_waits_for_nothing_are_not_told() -> None:
    hints = Deadlines()
    hints.watch([replace(scheduled(1), state=None), replace(scheduled(1, table_id=2), state=TableState.PENDING)])
    assert hints.take(moment(10)) == []


def test_hints_that_were_lowered_again_and_again_take_no_room() -> None:
    hints = Deadlines()
    for second in range(10_000, 0, -1):
        hints.watch([scheduled(second)])
    assert len(hints._heap) <= 2 + record_index.SPARE_HINTS
    assert hints.take(moment(1)) == [1]


def test_a_tick_takes_no_lock_while_nothing_is_due() -> None:
    world = World()
    with ThreadPoolExecutor(1) as thread, world.coordinator.table_records.changing():
        thread.submit(world.coordinator.advance).result(60)
    world.coordinator.close()


def test_a_round_that_was_renewed_times_out_after_its_last_heartbeat(world: World) -> None:
    tierer, _ = world.assigned()
    world.clock.advance(60)
    tierer.beat()
    for seconds, state in ((60, "Tiering"), (59, "Tiering"), (1, "Failed")):
        world.clock.advance(seconds)
        world.coordinator.advance()
        assert world.state() == state
