"""Which kinds of errors a table's rounds had, as the store has them after each round."""

from __future__ import annotations

from typing import Any

from support.background import tick
from support.worlds.coordinator_world import HandTierer, World
from tiering.coordinator.decisions.error_kinds import MAX_ERRORS
from tiering.coordinator.decisions.records import ErrorRecord
from tiering.coordinator.memory.history import HistoryRange


def stored(world: World, **wanted: Any) -> list[ErrorRecord]:
    return list(world.store.read_errors(HistoryRange(**wanted)))


def fail_again(world: World, tierer: HandTierer, **fields: Any) -> None:
    """Another round of the table fails, when its back-off is over."""
    record = world.record()
    if record.retry_deadline is not None:
        world.later((record.retry_deadline - world.coordinator.table_records.now().steady).total_seconds())
    tierer.fail(tierer.get(), **fields)


def test_repeats_are_counted_by_phase_and_class(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment, error_message="first")
    (first,) = stored(world)
    assert (first.count, first.phase, first.error_class, first.retryable) == (1, "WRITE", "OSError", True)
    fail_again(world, tierer, error_phase="READ")
    fail_again(world, tierer, error_message="third")
    newest, other = stored(world)
    assert (newest.count, newest.phase, newest.message, newest.first_seen) == (2, "WRITE", "third", first.first_seen)
    assert newest.last_seen > first.last_seen
    assert newest.last_round_id != first.last_round_id
    assert (other.phase, other.count) == ("READ", 1)
    assert stored(world, fields={"phase": "READ"}) == [other]


def test_a_round_that_goes_well_resolves_them_and_a_later_failure_opens_its_kind_again(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.fail(assignment)
    world.later(10)
    tierer.run(tierer.get())
    (resolved,) = stored(world)
    assert resolved.resolved_at == world.clock.now()
    world.due()
    tierer.fail(tierer.get())
    (again,) = stored(world)
    assert (again.count, again.resolved_at, again.first_seen) == (2, None, resolved.first_seen)


def test_counts_go_on_after_a_restart(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment)
    world.restart()
    fail_again(world, tierer)
    assert [row.count for row in stored(world)] == [2]


def test_of_a_dropped_table_they_stay_as_history(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment)
    del world.cluster.by_path[world.table.path]
    tick(world.coordinator)
    (row,) = stored(world)
    assert (row.count, row.resolved_at) == (1, world.clock.now())


def test_a_tierer_that_makes_classes_up_does_not_fill_the_record(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.fail(assignment, error_class="Class0")
    for number in range(1, MAX_ERRORS + 5):
        fail_again(world, tierer, error_class=f"Class{number}")
    kinds = [row.error_class for row in world.record().errors]
    assert kinds == [f"Class{number}" for number in range(5, MAX_ERRORS + 5)]
    assert len(stored(world)) == MAX_ERRORS + 5
