"""Coordinators that come and go over one store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from support.background import tick
from support.worlds.coordinator_world import World
from support.worlds.memory_store import MemoryStore
from tiering.coordinator.memory.store import Store, Writes
from tiering.errors import Fenced, StoreError
from tiering.model.states import TableState

Reopen = Callable[[Store], Store]


def test_a_coordinator_restored_from_its_store_equals_the_one_before(opened: tuple[Store, Reopen]) -> None:
    world = World(store=opened[0])
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    tierer.begin(assignment, tierer.prepare(assignment))
    world.call(idempotency_key="k", wait=False)
    before = world.record()
    world.restart()
    after = world.record()
    assert replace(after, heartbeat_deadline=None) == replace(before, heartbeat_deadline=None)
    assert after.heartbeat_deadline == world.coordinator.table_records.now().after(world.options.service_timeout_ms)
    world.coordinator.close()


def test_a_coordinator_that_was_overtaken_changes_nothing_more(opened: tuple[Store, Reopen]) -> None:
    world = World(store=opened[0])
    former = world.coordinator
    newer = world.another()
    world.clock.advance(180)
    with pytest.raises(Fenced):
        tick(former)
    with pytest.raises(Fenced):
        world.tierer().beat(request=True)
    assert former.table_records.fenced is not None
    tick(newer)
    assert [record.state for record in newer.table_records.live()] == [TableState.PENDING]
    former.close()
    newer.close()


def test_after_a_write_with_unknown_outcome_the_store_is_read_again() -> None:
    """The write landed, its answer was lost: the coordinator must not go on from what it believed before."""
    store = MemoryStore()
    world = World(store=store)
    world.append()
    tierer, assignment = world.assigned()
    world.later(100)
    tierer.beat()
    apply = store.apply

    def lands_but_says_no(epoch: int, writes: Writes) -> None:
        apply(epoch, writes)
        raise StoreError("connection lost")

    store.apply = lands_but_says_no  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        tierer.plan(assignment)
    store.apply = apply  # type: ignore[method-assign]
    world.later(100)
    assert world.state() == "Tiering", "the renewal before the error still counts"
    assert world.record().round.planned_stops is not None  # type: ignore[union-attr]
    world.coordinator.close()
