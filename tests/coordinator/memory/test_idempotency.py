"""A coordinator that dies between an effect and its answer: a repeat with the same key finds both or neither (DESIGN 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.background import tick
from support.worlds.calling import connect
from support.worlds.coordinator_world import World
from support.worlds.lake_world import LakeWorld
from support.worlds.memory_store import MemoryStore
from tiering import crash_points, errors
from tiering.coordinator.calls.reconcile_lake import reconcile_lake
from tiering.coordinator.calls.retry_tiering import retry_tiering
from tiering.coordinator.memory.store import Writes
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult
from tiering.procedures.retry_tiering import RetryTiering


class DyingStore(MemoryStore):
    """A store whose process ends before or after the next write."""

    dies: str | None = None

    def apply(self, coordinator_epoch: int, writes: Writes) -> None:
        dies, self.dies = self.dies, None
        if dies == "before":
            raise KeyboardInterrupt
        super().apply(coordinator_epoch, writes)
        if dies == "after":
            raise KeyboardInterrupt


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_retry_that_died_has_one_effect_when_it_is_repeated(moment: str) -> None:
    store = DyingStore()
    world = World(store=store)
    world.append()
    tierer, assignment = world.assigned()
    tierer.fail(assignment, error_class="SchemaDrift", error_retryable=False)
    call = RetryTiering(world.table.path, caller="bob", idempotency_key="k")
    store.dies = moment
    with pytest.raises(KeyboardInterrupt):
        retry_tiering(world.coordinator.call_parts, call)
    world.restart()
    answers = [asyncio.run(world.coordinator.control.perform(call)) for _ in range(2)]
    assert answers[0] == answers[1]
    assert answers[0].status == "Pending"
    assert len([event for event in store.events() if event.event_type == "TABLE_RETRIED"]) == 1
    world.coordinator.close()


def test_a_repeat_is_answered_though_its_table_is_gone(world: World) -> None:
    call = RetryTiering(world.table.path, caller="bob", idempotency_key="k")
    first = asyncio.run(world.coordinator.control.perform(call))
    del world.cluster.by_path[world.table.path]
    tick(world.coordinator)
    assert asyncio.run(world.coordinator.control.perform(call)) == first
    with pytest.raises(errors.UnknownTable):
        asyncio.run(world.coordinator.control.perform(replace(call, idempotency_key="another")))


def test_a_waiting_call_that_is_repeated_while_it_waits_shares_its_goal(world: World) -> None:
    world.append()
    connect(world)
    first, second = world.call(idempotency_key="k", timeout_ms=0), world.call(idempotency_key="k", wait=False)
    assert first.round_id == second.round_id
    assert len(world.store.rounds()) == 1


@pytest.fixture
def rolled_back(tmp_path: Path) -> Iterator[tuple[LakeWorld, TableInfo]]:
    world = LakeWorld(tmp_path)
    table = world.table("orders")
    for number in range(2):
        world.append(table, number * 20, 20)
        assert world.tier(table).state is RoundState.SUCCEEDED
    loaded = world.iceberg(table)
    loaded.manage_snapshots().rollback_to_snapshot(loaded.metadata.snapshots[0].snapshot_id).commit()
    yield world, table
    world.close()


def reconcile(world: LakeWorld, table: TableInfo) -> ReconcileLakeResult:
    request = ReconcileLake(table.path, "retier", caller="alice", idempotency_key="k")
    return reconcile_lake(world.coordinator.call_parts, request)


def killed(*_: object, **__: object) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["rewind_lake_snapshot", "reconciled"])
def test_a_reconciliation_that_landed_and_died_is_ended_and_not_done_again(
    rolled_back: tuple[LakeWorld, TableInfo], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    world, table = rolled_back
    with monkeypatch.context() as patch:
        place = (
            world.storage if where == "rewind_lake_snapshot" else __import__("tiering.coordinator.decisions.reconciliation", fromlist=["x"])
        )
        patch.setattr(place, where, killed)
        with pytest.raises(KeyboardInterrupt):
            reconcile(world, table)
    landed = world.view(table)
    world.restart()
    again = reconcile(world, table)
    assert (again.outcome, again.lake_snapshot_id, again.round_id) == ("reconciled", landed.tiered, landed.marker.round_id)  # type: ignore[union-attr]
    assert world.view(table).snapshots == landed.snapshots
    assert reconcile(world, table) == again
    assert world.begin(table).end().state in (RoundState.SUCCEEDED, RoundState.EMPTY)
    world.assert_exact(table)


def test_a_reconciliation_that_died_before_its_commit_is_done_by_the_repeat(
    rolled_back: tuple[LakeWorld, TableInfo], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, table = rolled_back
    head = world.view(table).head
    with monkeypatch.context() as patch:
        patch.setattr(crash_points, "reach", lambda point: killed() if point == crash_points.RECONCILE_CLAIMED else None)
        with pytest.raises(KeyboardInterrupt):
            reconcile(world, table)
    assert world.view(table).head == head
    world.restart()
    assert reconcile(world, table).outcome == "reconciled"
    assert len(world.view(table).snapshots) == 3
    assert world.begin(table).end().state is RoundState.SUCCEEDED
    world.assert_exact(table)
