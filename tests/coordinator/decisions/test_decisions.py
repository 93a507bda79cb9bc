"""The pure rules one by one: back-off, order, ledger chains, plans, two clocks, options."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.clusters.memory_cluster import log_table
from support.worlds.coordinator_world import START, HandClock
from tiering.coordinator.decisions.change import Change, Context, enter_pending
from tiering.coordinator.decisions.lake_acks import chain_of, is_behind
from tiering.coordinator.decisions.moment import Moment, Timebase
from tiering.coordinator.decisions.operator_requests import reach_stops
from tiering.coordinator.decisions.records import CommitState, LakeCommitRecord, TableRecord, Trigger, from_text, to_text
from tiering.coordinator.decisions.retries import may_retry
from tiering.coordinator.decisions.round_lifecycle import RoundRef, assign, is_current
from tiering.coordinator.decisions.table_lifecycle import disable, discover, due, fingerprint, pick, restore
from tiering.coordinator.options import CoordinatorOptions
from tiering.errors import InvalidArgument, LakewardError
from tiering.model.rounds import RoundState
from tiering.model.states import TableState
from tiering.model.tables import BucketKey, TablePath

OPTIONS = CoordinatorOptions()
NOW = Moment(START, START)


def at(seconds: float, round_id: str = "r1", epoch: int = 1) -> Context:
    moment = START + timedelta(seconds=seconds)
    return Context(Moment(moment, moment), epoch, OPTIONS, round_id)


def scheduled(table_id: int = 1) -> TableRecord:
    return discover(at(0), log_table(table_id, TablePath("sales", f"t{table_id}"))).record


def waiting(table_id: int, since: float, trigger: Trigger = Trigger.FORCE, *, overdue: bool = False) -> TableRecord:
    record = enter_pending(Change(scheduled(table_id)), at(since, f"r{table_id}"), trigger, "test").record
    record = replace(record, lake=replace(record.lake, backlog={}))
    return record if overdue else replace(record, due_deadline=None)


def row(round_id: str, base: str | None) -> LakeCommitRecord:
    return LakeCommitRecord(round_id, 1, "sales", "orders", 1, CommitState.UNKNOWN, START, base_round_id=base)


def test_a_change_outside_the_table_of_transitions_is_refused() -> None:
    with pytest.raises(LakewardError, match="cannot go from Scheduled to Tiering"):
        Change(scheduled()).move(at(0), TableState.TIERING, "test")


def test_a_decision_leaves_its_input_as_it_was() -> None:
    record = scheduled()
    before = replace(record)
    change = due(at(180), record)
    assert change is not None
    assert record == before
    assert change.record.state is TableState.PENDING


def test_entering_pending_makes_epoch_and_round_together() -> None:
    change = due(at(180, "fresh"), scheduled())
    assert change is not None
    assert change.record.tiering_epoch == 1
    fresh_round = change.rounds["fresh"]
    assert (fresh_round.tiering_epoch, fresh_round.state, fresh_round.trigger, fresh_round.attempt) == (
        1,
        RoundState.QUEUED,
        Trigger.SCHEDULE,
        1,
    )
    assert change.record.round == fresh_round
    assert [event.round_id for event in change.events] == ["fresh"]


@pytest.mark.parametrize("seconds", [0, 119.999])
def test_nothing_is_due_before_its_time(seconds: float) -> None:
    assert due(at(seconds), scheduled()) is None


def test_a_new_table_is_due_before_its_deadline_by_what_a_first_round_takes() -> None:
    assert due(at(120), scheduled()) is not None


def test_the_order_of_assignment() -> None:
    late = waiting(1, since=0)
    early = waiting(2, since=5)
    overdue = waiting(3, since=200, overdue=True)
    called = waiting(4, since=300, trigger=Trigger.CALL)
    now = at(400).now
    left = [early, late, called, overdue]
    order = []
    while (picked := pick(left, now)) is not None:
        order.append(picked.table_id)
        left.remove(picked)
    assert order == [4, 3, 1, 2]


def test_a_table_that_fails_again_and_again_overtakes_no_other_by_being_late() -> None:
    late, bad = waiting(1, since=5), replace(waiting(2, since=10, overdue=True), consecutive_failures=2)
    assert pick([late, bad], at(100).now) == late
    assert pick([late, bad], at(10 + late.freshness_ms / 1_000).now) == bad  # it has waited for its freshness: its turn comes
    assert pick([late, replace(bad, consecutive_failures=1)], at(300).now).table_id == 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("slots", "running", "failing", "tables", "may"),
    [
        (8, 1, 50, 1_000, True),
        (8, 2, 50, 1_000, False),
        (1, 0, 50, 1_000, True),
        (1, 1, 50, 1_000, False),
        (8, 7, 1_000, 1_000, True),
        (8, 8, 1_000, 1_000, False),
        (8, 4, 500, 1_000, False),
    ],
    ids=["few", "a quarter", "one slot", "one slot taken", "after an outage", "all slots", "half of them"],
)
def test_retries_have_the_share_of_slots_that_failing_tables_are_of_all(
    slots: int, running: int, failing: int, tables: int, may: bool
) -> None:
    retry = replace(waiting(1, since=0, trigger=Trigger.RETRY), consecutive_failures=1)
    assert may_retry([retry] * running, slots, failing, tables) is may
    called = replace(waiting(1, since=0, trigger=Trigger.CALL), consecutive_failures=1)
    assert may_retry([called, scheduled()], slots, failing, tables)


@pytest.mark.parametrize(
    ("change", "current"),
    [({}, True), ({"round_id": ""}, True), ({"coordinator_epoch": 0}, True), ({"tiering_epoch": 2}, False), ({"round_id": "x"}, False)],
)
def test_a_round_is_named_by_table_epoch_and_id(change: dict[str, object], current: bool) -> None:
    record = assign(at(1), waiting(1, 0), "tierer").record
    ref = replace(RoundRef(1, 1, 1, "r1"), **change)  # type: ignore[arg-type]
    assert is_current(record, ref) is current
    assert not is_current(removed(at(2), record), ref)
    assert not is_current(None, ref)


def removed(ctx: Context, record: TableRecord) -> TableRecord:
    change = disable(ctx, record)
    assert change is not None
    return change.record


def test_a_removed_table_stays_removed_after_a_restart() -> None:
    gone = removed(at(1), scheduled())
    assert restore(at(2), gone).record == gone


def test_a_fingerprint_changes_with_what_can_mend_a_table() -> None:
    table = log_table()
    assert fingerprint(table) == fingerprint(replace(table, freshness_ms=1))
    assert fingerprint(table) != fingerprint(replace(table, properties={"a": "b"}))
    assert fingerprint(table) != fingerprint(replace(table, schema=table.schema.append(table.schema[0].with_name("b"))))


def test_the_ledger_is_followed_to_its_beginning() -> None:
    rows = {entry.round_id: entry for entry in (row("c", "b"), row("b", "a"), row("x", "a"))}
    assert chain_of("c", rows) == {"c", "b", "a"}
    assert chain_of("z", rows) == {"z"}
    assert chain_of("l", {"l": row("l", "l")}) == {"l"}


def test_going_back_in_any_bucket_is_going_back() -> None:
    assert is_behind({"0": 5, "1": 9}, {"0": 6, "1": 1})
    assert not is_behind({"0": 6}, {"0": 6, "17/0": 3})
    assert not is_behind({"0": 1}, None)


def test_a_plan_reaches_a_goal_only_if_it_is_known_and_gets_to_every_bucket() -> None:
    assert not reach_stops(None, {}, {})
    assert reach_stops({"0": 10}, {"0": 10, "1": 0}, {"0": 0, "1": 0})
    assert not reach_stops({"0": 10}, {"0": 10, "1": 1}, {"0": 0, "1": 0})
    assert reach_stops({}, {"0": 7}, {"0": 7})


@given(st.dictionaries(st.builds(BucketKey, st.none() | st.integers(0, 2**40), st.integers(0, 2**20)), st.integers(0, 2**62)))
def test_offsets_survive_their_text(offsets: dict[BucketKey, int]) -> None:
    assert from_text(to_text(offsets)) == offsets


def test_steady_time_ignores_a_clock_that_is_set() -> None:
    clock = HandClock()
    timebase = Timebase(clock)
    deadline = timebase.now().after(60_000)
    clock.wall += timedelta(days=1)
    now = timebase.now()
    assert not now.passed(deadline)
    assert now.to_wall(deadline) == START + timedelta(days=1, seconds=60)
    assert now.from_wall(START + timedelta(days=1, seconds=60)) == deadline
    clock.advance(60)
    assert timebase.now().passed(deadline)
    assert not timebase.now().passed(None)


@pytest.mark.parametrize("options", [{"service_timeout_ms": 0}, {"keep_rounds": -1}, {"backoff_min_ms": 9, "backoff_max_ms": 8}])
def test_an_option_that_cannot_be_is_named(options: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        CoordinatorOptions(**options)  # type: ignore[arg-type]
