"""Clocks that are wrong: set ahead, set back, while the coordinator runs and between two starts.

A wrong clock may delay a table by as much as a table that is new or failing waits, never by more; and it loses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from support.background import tick
from support.clusters.memory_cluster import log_table
from support.operators import pause, resume
from support.worlds.coordinator_world import BEGINS, START, World
from support.worlds.memory_store import MemoryStore
from tiering.coordinator.decisions.records import CommitState, LakeCommitRecord, RoundRecord, Trigger
from tiering.coordinator.memory.history import HistoryBounds
from tiering.coordinator.memory.idempotency import stored_key
from tiering.coordinator.memory.sql_store import SqlStore, sqlite_url
from tiering.coordinator.memory.store import Store, Writes
from tiering.coordinator.observing.lag import lag_of, observation_of
from tiering.errors import StoreError
from tiering.lake.maintenance import StoredFile
from tiering.lake.rules.sweep import RoundFate, SweptTable, Verdict, sweep_verdicts
from tiering.model.rounds import RoundState
from tiering.model.tables import BucketKey, BucketOffsets, TablePath
from tiering.procedures.retry_tiering import RetryTiering

YEARS = timedelta(days=4 * 365)
AHEAD, BACK = YEARS, -YEARS


def restarted(world: World, by: timedelta) -> None:
    """The coordinator's machine starts anew, and its clock is another one."""
    world.clock.wall += by
    world.restart()


@pytest.mark.parametrize("by", [AHEAD, BACK])
def test_a_resting_table_is_due_within_its_freshness_after_a_start(world: World, by: timedelta) -> None:
    restarted(world, by)
    world.due()
    assert world.state() == "Pending"


def test_a_table_that_was_scheduled_while_the_clock_was_ahead_does_not_wait_for_years(world: World) -> None:
    restarted(world, AHEAD)
    world.due()
    tierer = world.tierer()
    tierer.finish(tierer.get(), empty=True)  # due again four years and three minutes from the true now
    restarted(world, BACK)
    world.later(BEGINS - 1)
    assert world.state() == "Scheduled"
    world.later(1)
    assert world.state() == "Pending"


def test_a_failed_table_is_tried_again_within_the_longest_back_off(world: World) -> None:
    restarted(world, AHEAD)
    world.due()
    tierer = world.tierer()
    tierer.fail(tierer.get())
    restarted(world, BACK)
    assert world.state() == "Failed"
    world.later(world.coordinator.options.backoff_max_ms / 1_000)
    assert world.state() == "Pending"


def test_a_round_that_began_while_the_clock_was_ahead_is_followed_by_the_next_in_time(world: World) -> None:
    restarted(world, AHEAD)
    world.due()
    tierer = world.tierer()
    assignment = tierer.get()
    restarted(world, BACK)
    world.later(5)
    tierer.finish(assignment, empty=True)
    world.due()
    assert world.state() == "Pending"
    assert world.record().last_round_duration_ms == 5_000


def test_a_table_that_waits_since_the_future_waits_no_longer_than_others() -> None:
    world = World((log_table(1), log_table(2, TablePath("sales", "returns"))))
    pause(world.coordinator, world.tables[1].path, "alice")
    restarted(world, AHEAD)
    world.due()
    assert [world.state(table) for table in world.tables] == ["Pending", "Scheduled"]
    restarted(world, BACK)
    world.later(1)
    resume(world.coordinator, world.tables[1].path, "alice")
    world.due()
    tierer = world.tierer()
    assert [tierer.get().table_id for _ in range(2)] == [1, 2]
    world.coordinator.close()


def test_a_table_made_while_the_clock_was_ahead_is_due_as_one_made_now() -> None:
    future_table = replace(log_table(), created_at=START + YEARS, lake_enabled_at=START + YEARS)
    world = World((future_table,))
    world.due()
    assert world.state() == "Pending"
    world.coordinator.close()


@pytest.mark.parametrize("by", [AHEAD, BACK])
def test_a_clock_that_is_set_while_the_coordinator_runs_changes_no_deadline(world: World, by: timedelta) -> None:
    tierer, assignment = world.assigned()
    world.clock.wall += by
    world.later(40)
    assert world.state() == "Tiering"
    tierer.finish(assignment, empty=True)
    world.later(BEGINS - 41)
    assert world.state() == "Scheduled"
    world.later(1)
    assert world.state() == "Pending"


@pytest.mark.parametrize("by", [AHEAD, BACK])
def test_a_pause_ends_at_the_wall_time_that_was_named_also_after_the_clock_was_mended(world: World, by: timedelta) -> None:
    """The clock is wrong at the start and set right while it runs; then a user pauses, and the coordinator starts again."""
    world.clock.wall -= by
    world.restart()
    world.clock.wall += by
    until = world.clock.now() + timedelta(hours=1)
    pause(world.coordinator, world.table.path, "alice", until=until)
    world.restart()
    [status] = world.coordinator.view().table_statuses()
    assert status.paused_until == until
    world.later(3_599)
    assert world.record().pause is not None
    world.later(1)
    assert world.record().pause is None


def test_a_pause_that_a_user_sets_until_a_far_day_stays(world: World) -> None:
    until = world.clock.now() + YEARS
    pause(world.coordinator, world.table.path, "alice", until=until)
    world.restart()
    world.due()
    assert world.record().pause is not None
    assert world.coordinator.view().table_statuses()[0].paused_until == until
    resume(world.coordinator, world.table.path, "alice")
    tick(world.coordinator)
    assert world.state() == "Pending"


def test_a_clock_that_is_set_ends_no_pause_while_the_coordinator_runs(world: World) -> None:
    pause(world.coordinator, world.table.path, "alice", until=world.clock.now() + timedelta(hours=1))
    world.clock.wall += AHEAD
    world.due()
    assert world.record().pause is not None


def test_what_is_read_again_after_a_write_that_failed_is_within_reach_too() -> None:
    class Failing(MemoryStore):
        fail = False

        def apply(self, coordinator_epoch: int, writes: Writes) -> None:
            if self.fail:
                raise StoreError("the disk is full")
            super().apply(coordinator_epoch, writes)

    store = Failing()
    world = World(store=store)
    restarted(world, AHEAD)
    world.due()
    tierer = world.tierer()
    tierer.fail(tierer.get())
    restarted(world, BACK)  # a failed table is restored as it is stored, deadlines of four years and all
    store.fail = True
    with pytest.raises(StoreError):
        pause(world.coordinator, world.table.path, "alice")
    store.fail = False
    tick(world.coordinator)
    world.later(world.coordinator.options.backoff_max_ms / 1_000)
    assert world.state() == "Pending"
    world.coordinator.close()


def test_a_key_still_names_its_call_after_the_clock_was_set_ahead(world: World) -> None:
    async def retry() -> object:
        call = RetryTiering(path=world.table.path, caller="alice", idempotency_key="k")
        return await world.coordinator.control.perform(call)

    asyncio.run(retry())
    world.clock.wall += AHEAD
    world.later(1)
    assert world.store.operation(stored_key("alice", "k")) is not None


def round_row(number: int, made_at: datetime) -> RoundRecord:
    return RoundRecord(f"round-{number}", 1, "sales", "orders", number, 1, Trigger.SCHEDULE, RoundState.SUCCEEDED, made_at)


def commit_row(row: RoundRecord) -> LakeCommitRecord:
    return LakeCommitRecord(row.round_id, 1, "sales", "orders", row.tiering_epoch, CommitState.ACKED, row.pending_time)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened_store = MemoryStore() if request.param == "memory" else SqlStore(sqlite_url(tmp_path / "store.db"))
    yield opened_store
    opened_store.close()


def test_rounds_from_when_the_clock_was_ahead_push_out_none_that_are_dated_rightly(store: Store) -> None:
    """A grant that is forgotten too early takes from the sweep what it spares files by."""
    epoch = store.take_over()
    ahead = tuple(round_row(number, START + YEARS) for number in range(1, 9))
    right = tuple(round_row(number, START + timedelta(seconds=number)) for number in range(9, 15))
    grants = tuple(commit_row(row) for row in (*ahead, *right))
    store.apply(epoch, Writes(rounds=(*ahead, *right), commits=grants))
    store.prune(epoch, HistoryBounds(START, 4, 10, 4, 10), START, START + timedelta(days=1))
    kept = {row.round_id for row in (*ahead, *right[-4:])}
    assert {row.round_id for row in store.rounds()} == kept
    assert {row.round_id for row in store.commits()} == kept
    store.prune(epoch, HistoryBounds(START, 4, 10, 4, 10), START, START + 2 * YEARS)
    assert len(store.rounds()) >= 4


def test_the_ledger_of_one_table_is_in_the_order_of_its_epochs(store: Store) -> None:
    """An ack looks at the newest rows only: rows from the future must not hide the ones it has to settle."""
    epoch = store.take_over()
    ahead = tuple(commit_row(round_row(number, START + YEARS)) for number in range(1, 9))
    newest = replace(commit_row(round_row(9, START)), state=CommitState.UNKNOWN)
    store.apply(epoch, Writes(commits=(*ahead, newest)))
    assert [row.tiering_epoch for row in store.commits(1, limit=2)] == [9, 8]


B0 = BucketKey(None, 0)


def lag_ms(seen_at: datetime, now: datetime, oldest: datetime) -> int | None:
    """Returns the lag of one row with the time `oldest`, first seen at one time and observed at another."""
    buckets = {B0: BucketOffsets(0, 1, 1.0)}
    first = observation_of(buckets, None, seen_at, lambda _: {B0: oldest})
    again = observation_of(dict(buckets), None, now, lambda _: {B0: oldest}, first)
    return lag_of(again, None).age_ms(now)


def test_the_lag_of_a_row_from_the_future_grows_from_when_it_was_first_seen() -> None:
    assert lag_ms(START, START + timedelta(seconds=60), oldest=START + YEARS) == 60_000


def test_the_lag_goes_on_after_the_clock_was_set_back() -> None:
    assert lag_ms(START + YEARS, START, oldest=START + YEARS) == 0
    assert lag_ms(START + YEARS, START + timedelta(seconds=60), oldest=START) == 60_000


def test_new_rows_are_seen_after_the_clock_was_set_back(world: World) -> None:
    world.coordinator.observer.observe_all()
    world.clock.wall += BACK
    world.append(7)
    world.clock.advance(2)
    world.coordinator.observer.observe_all()
    [status] = world.coordinator.view().table_statuses()
    assert status.pending_records == 7
    assert status.lag_ms is not None


def test_a_file_from_the_future_is_young_to_the_sweep() -> None:
    """The file's age is unknown, so it stays until its time has come. That costs only disk space."""
    name = "lakeward-r1-nonce-0.parquet"
    file = StoredFile(name, name, 1, START + YEARS)
    lake = SweptTable("uuid", frozenset(), None, frozenset(), frozenset())
    [(_, verdict)] = sweep_verdicts([file], {"r1": RoundFate(ended=True)}, lake, START, timedelta(days=1))
    assert verdict is Verdict.YOUNG
