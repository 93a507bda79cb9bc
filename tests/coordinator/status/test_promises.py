"""A promise is broken exactly while a row waits for longer than the freshness, whatever the deadline of the next round is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.background import tick
from support.operators import pause
from support.worlds.coordinator_world import FRESHNESS, START, World
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.reconciliation import queue_now
from tiering.errors import ClusterUnavailable
from tiering.model.states import LASTING
from tiering.model.status import TableStatus, promise_of, promises_of
from tiering.model.tables import BucketKey, Offsets, TableInfo


def look(world: World) -> TableStatus:
    [status] = world.coordinator.view().table_statuses()
    return status


def append_now(world: World) -> None:
    """Appends rows that are written at this moment."""
    written = world.clock.wall

    def ages(table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        return dict.fromkeys(offsets, written)

    world.cluster.oldest_timestamps = ages  # type: ignore[method-assign]
    world.append()


def set_freshness(world: World, freshness_ms: int) -> None:
    table = replace(world.table, freshness_ms=freshness_ms)
    world.cluster.by_path[table.path] = table
    tick(world.coordinator)


def test_a_row_may_wait_for_the_freshness_and_not_longer(world: World) -> None:
    world.append()
    world.clock.advance(FRESHNESS)
    assert (look(world).lag_ms, look(world).promise) == (FRESHNESS * 1_000, "kept")
    world.clock.advance(0.001)
    assert look(world).promise == "broken"


def test_a_table_never_tiered_and_without_rows_keeps_its_promise(world: World) -> None:
    world.clock.advance(10 * FRESHNESS)
    assert (look(world).lag_ms, look(world).promise) == (0, "kept")


def test_an_idle_table_is_at_risk_while_it_is_paused_and_its_promise_is_never_broken(world: World) -> None:
    pause(world.coordinator, world.table.path, "ann")
    world.later(10 * FRESHNESS)
    status = look(world)
    assert status.freshness_deadline is not None
    assert status.freshness_deadline < status.observed_time
    assert (status.lag_ms, status.promise) == (0, "at risk")


def test_a_table_that_fails_is_at_risk_until_a_row_waited_for_too_long(world: World) -> None:
    world.due()
    tierer = world.tierer()
    assignment = tierer.get()
    append_now(world)
    tierer.fail(assignment)
    assert (look(world).status, look(world).promise) == ("Failed", "at risk")
    world.clock.advance(FRESHNESS + 1)
    assert (look(world).status, look(world).promise) == ("Failed", "broken")


def test_a_repaired_table_that_is_due_at_once_has_broken_nothing(world: World) -> None:
    pause(world.coordinator, world.table.path, "ann")
    append_now(world)
    records = world.coordinator.table_records
    with records.changing():
        records.put(queue_now(records.context(), Change(world.record()), "reconciled"))
    world.clock.advance(2)
    status = look(world)
    assert status.freshness_deadline == START
    assert (status.lag_ms, status.promise) == (2_000, "at risk")


def test_a_changed_freshness_counts_at_once_for_the_rows_that_wait(world: World) -> None:
    world.clock.advance(100)
    append_now(world)
    world.clock.advance(5)
    assert look(world).promise == "kept"
    set_freshness(world, 10_000)
    assert look(world).freshness_deadline == START + timedelta(seconds=10)
    assert look(world).promise == "kept"
    world.clock.advance(6)
    assert look(world).promise == "broken"
    set_freshness(world, 60_000)
    assert look(world).promise == "kept"


def test_a_clock_that_is_set_back_or_ahead_changes_lag_and_promise_together(world: World) -> None:
    world.append()
    world.coordinator.observer.observe_all()
    for seconds, promise in ((FRESHNESS + 1, "broken"), (-3_600, "kept"), (2 * 3_600, "broken")):
        world.clock.wall += timedelta(seconds=seconds)
        status = look(world)
        assert status.lag_ms is not None
        assert (status.promise, status.lag_ms > status.freshness_ms) == (promise, promise == "broken")


@pytest.mark.parametrize("is_paused", [False, True])
def test_the_promise_is_unknown_while_the_lag_is(world: World, is_paused: bool) -> None:
    def away(table: TableInfo) -> None:
        raise ClusterUnavailable("away")

    if is_paused:
        pause(world.coordinator, world.table.path, "ann")
    world.cluster.offsets = away  # type: ignore[assignment, method-assign]
    world.later(10 * FRESHNESS)
    assert (look(world).lag_ms, look(world).promise) == (None, None)


@given(st.lists(st.tuples(st.none() | st.integers(0, 4), st.integers(0, 4), st.sampled_from(LASTING), st.booleans())))
def test_many_tables_are_judged_as_one(tables: list[tuple[int | None, int, str, bool]]) -> None:
    kinds = (pa.int64(), pa.int64(), pa.string(), pa.bool_())
    arrays = [pa.array([str(table[at]) if kind == pa.string() else table[at] for table in tables], kind) for at, kind in enumerate(kinds)]
    one_by_one = [promise_of(lag_ms, freshness_ms, status, paused=paused) for lag_ms, freshness_ms, status, paused in tables]
    assert promises_of(*arrays).to_pylist() == one_by_one
