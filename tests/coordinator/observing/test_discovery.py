"""The comparison with the cluster's tables updates the records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from support.background import tick
from support.clusters.memory_cluster import log_table
from support.worlds.coordinator_world import FRESHNESS, START, World
from tiering.coordinator.decisions.records import CommitState
from tiering.coordinator.memory.store import Store, Writes
from tiering.errors import ClusterUnavailable, StoreError, UnknownTable
from tiering.model.states import TRANSITIONS
from tiering.model.tables import TableInfo, TablePath

Reopen = Callable[[Store], Store]


def events(world: World) -> list[str]:
    return [event.event_type for event in reversed(world.store.events())]


def test_a_new_lake_table_is_scheduled_for_its_creation_plus_freshness(world: World) -> None:
    assert events(world) == ["TABLE_NEW", "TABLE_SCHEDULED"]
    record = world.record()
    assert (record.state, record.tiering_epoch, record.last_tiered_time) == ("Scheduled", 0, None)
    assert record.due_deadline == START + timedelta(seconds=FRESHNESS)


def test_enabling_the_lake_later_counts_from_then() -> None:
    world = World((replace(log_table(), lake_enabled=False, lake_enabled_at=None),))
    assert world.coordinator.table_records.live() == []
    world.later(1_000)
    _put(world, replace(world.table, lake_enabled=True, lake_enabled_at=world.clock.now()))
    assert world.record().due_deadline == world.clock.now() + timedelta(seconds=FRESHNESS)
    world.coordinator.close()


def test_a_dropped_table_is_removed_with_its_errors(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment)
    del world.cluster.by_path[world.table.path]
    tick(world.coordinator)
    assert world.coordinator.table_records.live() == []
    assert world.coordinator.view().table_statuses() == []
    assert events(world)[-1] == "TABLE_REMOVED"
    assert "no disk left" not in repr(world.coordinator.table_records.all())
    assert "no disk left" not in repr(world.store.load())


HOUR = 3_600


@pytest.mark.parametrize("count", [500])
def test_of_dropped_tables_no_record_is_left_after_an_hour(opened: tuple[Store, Reopen], count: int) -> None:
    store, reopen = opened
    tables = tuple(log_table(number, TablePath("sales", f"t{number}")) for number in range(1, count + 1))
    world = World(tables, store=store)
    tierer, assignment = world.assigned()
    tierer.run(assignment)
    tierer.fail(tierer.get())
    world.cluster.by_path.clear()
    world.later(1)
    assert len(store.load()) == count
    world.restart()
    world.later(HOUR - 1)
    assert len(world.coordinator.table_records.all()) == count
    world.later(1)
    assert (dict(world.coordinator.table_records.all()), list(reopen(store).load())) == ({}, [])
    assert world.coordinator.view().status_columns().num_rows == 0
    world.coordinator.close()


def test_a_table_whose_lake_was_disabled_keeps_its_record_until_it_is_dropped(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.run(assignment)
    _put(world, replace(world.table, lake_enabled=False))
    world.later(100 * HOUR)
    [kept] = world.store.load()
    assert (kept.state, kept.tiering_epoch, kept.lake.table_uuid) == (None, assignment.tiering_epoch, "lake-1")
    del world.cluster.by_path[world.table.path]
    world.later(1)
    world.later(HOUR)
    assert list(world.store.load()) == []


@pytest.mark.parametrize("lake_enabled", [True, False])
def test_a_table_that_is_listed_again_in_time_goes_on_with_its_epochs(world: World, lake_enabled: bool) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment)
    del world.cluster.by_path[world.table.path]
    world.later(1)
    _put(world, replace(world.table, lake_enabled=lake_enabled))
    world.later(2 * HOUR)
    _put(world, world.table)
    world.due()
    assert world.record().tiering_epoch == assignment.tiering_epoch + 1


def test_the_grants_of_a_dropped_table_outlive_its_record(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    ack = tierer.ack_message(assignment)
    del world.cluster.by_path[world.table.path]
    world.later(1)
    world.later(HOUR)
    assert list(world.store.load()) == []
    assert [row.state for row in world.store.commits(world.table.table_id)] == [CommitState.UNKNOWN]
    with pytest.raises(UnknownTable):
        world.coordinator.commits.commit_lake_snapshot(ack)
    assert tierer.beat().tiering_table_resp[0].cancel


def test_epochs_go_on_when_the_lake_is_disabled_and_enabled_again(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    tierer.ack(assignment)
    _put(world, replace(world.table, lake_enabled=False))
    world.restart()
    assert world.coordinator.table_records.live() == []
    _put(world, replace(world.table, lake_enabled=True))
    assert world.record().lake.table_uuid == "lake-1"
    assert world.record().error_count == 0
    world.due()
    assert world.tierer("two").get().tiering_epoch == assignment.tiering_epoch + 1


def test_a_table_made_anew_is_another_table(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    tierer.ack(assignment)
    _put(world, replace(world.table, table_id=2))
    assert world.coordinator.table_records.get(1) is None
    record = world.coordinator.table_records.get(2)
    assert record is not None
    assert (record.lake.table_uuid, record.last_tiered_time) == (None, None)
    assert record.round is not None
    assert record.round.round_id != assignment.round_id


def test_a_changed_freshness_moves_the_due_time(world: World) -> None:
    _put(world, replace(world.table, freshness_ms=60_000))
    world.later(29)
    assert world.state() == "Scheduled"
    world.later(1)
    assert world.state() == "Pending"


def test_a_change_does_not_disturb_a_running_round(world: World) -> None:
    tierer, assignment = world.assigned()
    _put(world, replace(world.table, properties={"note": "new"}))
    assert not tierer.beat().tiering_table_resp[0].HasField("error")
    assert world.record().tiering_epoch == assignment.tiering_epoch


def test_a_cluster_that_does_not_answer_takes_no_table_away(world: World) -> None:
    def away(database_name: str | None = None) -> list[TableInfo]:
        raise ClusterUnavailable("away")

    world.cluster.tables = away  # type: ignore[method-assign]
    with pytest.raises(ClusterUnavailable):
        world.coordinator.discovery.run()
    world.coordinator.discovery.run_quietly()
    assert world.state() == "Scheduled"


def test_a_second_look_at_the_same_tables_writes_nothing(world: World) -> None:
    before = len(world.store.events())
    world.coordinator.discovery.run()
    assert len(world.store.events()) == before


def test_a_restart_meets_tables_at_rest_again_and_leaves_the_others(world: World) -> None:
    other = replace(log_table(2, TablePath("sales", "late")), freshness_ms=10**9)
    world.cluster.logs[2] = {}
    _put(world, other)
    world.due()
    events_before = len(world.store.events())
    assert (world.state(), world.state(other)) == ("Pending", "Scheduled")
    world.restart()
    assert (world.state(), world.state(other)) == ("Pending", "Scheduled")
    assert events(world)[events_before:] == ["TABLE_INITIALIZED", "TABLE_SCHEDULED"]


def test_every_change_of_state_in_the_events_is_legal(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment)
    world.restart()
    world.later(5)
    tierer.finish(tierer.get(), empty=True)
    del world.cluster.by_path[world.table.path]
    tick(world.coordinator)
    moves = [event.details for event in world.store.events() if "to" in event.details]
    assert len(moves) >= 9
    assert all((move["from"], move["to"]) in TRANSITIONS for move in moves)


def test_thousands_of_tables_are_found_at_once() -> None:
    tables = tuple(log_table(number, TablePath("many", f"t{number}"), buckets=1) for number in range(1, 2_001))
    world = World(tables)
    assert len(world.coordinator.table_records.live()) == 2_000
    world.due()
    assert {record.state for record in world.coordinator.table_records.live()} == {"Pending"}
    world.coordinator.close()


def test_a_difference_whose_write_failed_is_found_again_also_when_the_table_is_as_it_was(world: World) -> None:
    fresh = replace(world.table, freshness_ms=60_000)
    other = log_table(2, TablePath("sales", "second"))
    world.cluster.logs[2] = {}
    for now_is, stored in ((fresh, True), (world.table, True), (fresh, False)):
        world.cluster.by_path |= {world.table.path: now_is, other.path: other}
        apply = world.store.apply

        def failing(epoch: int, writes: Writes, stored: bool = stored, apply: Callable[[int, Writes], None] = apply) -> None:
            if stored:
                apply(epoch, writes)
            raise StoreError("the disk is full")

        world.store.apply = failing  # type: ignore[method-assign]
        with pytest.raises(StoreError):
            world.coordinator.discovery.run()
        world.store.apply = apply  # type: ignore[method-assign]
    world.coordinator.discovery.run()
    assert world.record().freshness_ms == 60_000
    assert world.record(other).state == "Scheduled"


def test_a_listing_that_is_still_the_same_is_not_compared_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = list(world.cluster.tables())
    monkeypatch.setattr(world.cluster, "tables", lambda: kept)
    world.coordinator.discovery.run()
    monkeypatch.setattr(world.coordinator.table_records, "live", lambda: pytest.fail("compared"))
    world.coordinator.discovery.run()
    monkeypatch.undo()
    _put(world, replace(world.table, freshness_ms=60_000))
    assert world.record().freshness_ms == 60_000


def _put(world: World, info: TableInfo) -> None:
    world.cluster.by_path[info.path] = info
    tick(world.coordinator)
