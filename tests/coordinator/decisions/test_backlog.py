"""The backlog of a table: it begins when a bucket is first planned, and ends once."""

from __future__ import annotations

from support.worlds.coordinator_world import World
from tiering.coordinator.decisions.backlog import backlog_left


def backlog(world: World) -> bool | None:
    [status] = world.coordinator.view().table_statuses()
    column = world.coordinator.view().status_columns().column("is_backlog")
    assert column.to_pylist() == [status.is_backlog]
    return status.is_backlog


def test_a_backlog_is_what_was_there_when_reading_began_and_ends_once(world: World) -> None:
    assert backlog(world) is None
    world.append(10)
    tierer, assignment = world.assigned()
    assert backlog(world) is None  # it did not look yet
    tierer.plan(assignment)
    assert backlog(world) is True
    world.restart()
    assert backlog(world) is True
    tierer.fail(assignment)
    world.append(5)
    world.later(60)
    again = tierer.get()
    tierer.commit(again)
    assert backlog(world) is True
    tierer.ack(again)
    assert backlog(world) is False
    tierer.finish(again)
    world.append(50)
    world.later(1_000)
    tierer.plan(tierer.get())
    assert backlog(world) is False


def test_a_table_without_rows_has_no_backlog(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.finish(assignment, empty=True)
    assert backlog(world) is False


def test_a_backlog_that_is_reached_in_part_goes_on_and_a_vanished_partition_has_none() -> None:
    assert backlog_left(None, {"0": 5}) is None
    assert backlog_left({"0": 10, "1": 3, "7/0": 9}, {"0": 9, "1": 3}) == {"0": 10}
