"""CALLs on tables whose lake hangs: they keep what they were asked for, `wait => false` and `timeout_ms`, and ask for one round."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.clusters.memory_cluster import log_table
from support.worlds.calling import connect, during, until
from support.worlds.coordinator_world import World
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.calls import tier_database, tier_table
from tiering.coordinator.observing.lake_probes import THREADS
from tiering.lake.base import LakeView
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import TableInfo, TablePath
from tiering.procedures.base import CallRequest, Progress
from tiering.procedures.explain_tiering import ExplainTiering
from tiering.procedures.tier_database import TierDatabase, TierDatabaseResult
from tiering.procedures.tier_table import TierTable
from tiering.procedures.wait_for_tiering import WaitForTiering

ABOUT_S = 20.0
"""Seconds that a busy machine may add to a wait."""
HANGS_S = 120
"""Seconds that a lake hangs that no test releases: much longer than any call may wait."""
TABLES = THREADS + 50


class Lake:
    """Makes the lake of a world hang, and counts the looks at it."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.looks = 0
        self._view = world.lake.view
        monkeypatch.setattr(world.lake, "view", self._look)

    def _look(self, path: TablePath) -> LakeView | None:
        self.looks += 1
        assert self.answers.wait(HANGS_S)
        return self._view(path)

    def hang(self) -> None:
        self.answers.clear()


@pytest.fixture
def lake(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    new_lake = Lake(world, monkeypatch)
    yield new_lake
    new_lake.answers.set()


class Watch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began


def test_a_call_that_does_not_wait_answers_and_its_repeat_has_the_same_round(
    world: World, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.append()
    lake.hang()
    watch = Watch()
    first = world.call(wait=False, idempotency_key="k")
    assert watch.seconds < tier_table.FIRST_LOOK_MS / 1_000 + ABOUT_S
    assert (first.state, first.lake_snapshot_id) == ("Pending", None)

    monkeypatch.setattr(tier_table, "FIRST_LOOK_MS", 1_000 * HANGS_S)
    watch = Watch()
    second = world.call(wait=False, caller="bob")
    assert watch.seconds < ABOUT_S, "a look hangs already"
    assert world.call(wait=False, idempotency_key="k").round_id == first.round_id == second.round_id
    assert (len(world.store.rounds()), lake.looks) == (1, 1)

    before = world.record()
    lake.answers.set()
    asyncio.run(until(lambda: not world.coordinator.call_parts.probes._tables))
    assert world.record() == before, "the look that was given up has no effect"
    tierer = world.tierer()
    tierer.run(tierer.get())
    assert world.call().state == "EMPTY"
    assert len(world.store.rounds()) == 1


def test_a_time_out_holds_and_the_round_goes_on(world: World, lake: Lake) -> None:
    world.append()
    connect(world)
    lake.hang()

    async def act() -> None:
        world.clock.advance(1.5)
        world.coordinator.table_records.wake_ups.notify()

    watch = Watch()
    result = during(world, act, timeout_ms=1_500)
    assert watch.seconds < 1.5 + ABOUT_S
    assert result.state == "Pending"
    assert [stored.round_id for stored in world.store.rounds()] == [result.round_id]


def test_a_time_out_holds_while_the_lake_hangs_after_the_round(world: World, lake: Lake) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)

    async def act() -> None:
        tierer.commit(assignment)
        tierer.ack(assignment)
        lake.hang()
        world.clock.advance(29)
        tierer.finish(assignment)
        await until(lambda: "about the table sales.orders" in world.progress_lines[-1])
        world.clock.advance(1)
        world.coordinator.table_records.wake_ups.notify()

    watch = Watch()
    result = during(world, act, timeout_ms=30_000)
    assert watch.seconds < 1 + ABOUT_S
    assert (result.state, result.round_id) == ("Scheduled", assignment.round_id)
    assert len(world.store.rounds()) == 1


def test_explanations_that_wait_for_the_lake_hold_no_other_call(world: World, lake: Lake) -> None:
    world.append()
    lake.hang()

    async def crowd() -> float:
        control = world.coordinator.control
        explaining = [asyncio.ensure_future(control.perform(ExplainTiering(world.table.path))) for _ in range(40)]
        await until(lambda: lake.looks >= 8)
        watch = Watch()
        assert (await control.perform(TierTable(world.table.path, wait=False))).state == "Pending"
        answered = watch.seconds
        lake.answers.set()
        await asyncio.gather(*explaining)
        return answered

    assert asyncio.run(crowd()) < tier_table.FIRST_LOOK_MS / 1_000 + ABOUT_S


def test_a_lake_that_is_well_is_looked_at_once(world: World, lake: Lake) -> None:
    assert world.call().state == "EMPTY"
    assert lake.looks == 1
    world.append()
    assert world.call(wait=False).state == "Pending"
    assert lake.looks == 2


def test_a_database_whose_lake_hangs_keeps_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tuple(log_table(number, TablePath("sales", f"table_{number:03}")) for number in range(1, TABLES + 1)))
    lake = Lake(world, monkeypatch)
    try:
        for table in world.tables:
            world.append(table=table)
        lake.hang()
        watch = Watch()
        result = asyncio.run(world.coordinator.control.perform(TierDatabase("sales", wait=False)))
        assert watch.seconds < 3 * tier_table.FIRST_LOOK_MS / 1_000 + ABOUT_S
        assert {row.tiered.state for row in result.rows} == {"Pending"}
        assert len({row.tiered.round_id for row in result.rows}) == len(world.store.rounds()) == TABLES
        assert lake.looks < TABLES, "some tables waited for no look: so many hang already"
    finally:
        lake.answers.set()
        world.coordinator.close()


def test_the_time_of_a_database_is_that_of_all_its_tables_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tier_database, "AT_ONCE", 1)
    second = log_table(2, TablePath("sales", "planes"))
    world.cluster.by_path[second.path], world.cluster.logs[2] = second, dict(world.cluster.logs[1])
    for table in (world.table, second):
        world.append(table=table)
    connect(world)

    async def both() -> TierDatabaseResult:
        call = asyncio.create_task(world.coordinator.control.perform(TierDatabase("sales", timeout_ms=5_000)))
        await until(lambda: world.coordinator.table_records.wake_ups.waiting == 1)
        world.clock.advance(5)
        world.coordinator.table_records.wake_ups.notify()
        return await asyncio.wait_for(call, 60)

    assert [row.tiered.state for row in asyncio.run(both()).rows] == ["Pending", "Pending"]


@pytest.fixture
def iceberg(tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path)
    yield world
    world.close()


@pytest.mark.parametrize("request_class", [TierTable, WaitForTiering])
def test_a_catalog_whose_database_is_locked_holds_no_call(iceberg: LakeWorld, request_class: type[CallRequest[Any]]) -> None:
    table = iceberg.table("orders")
    iceberg.append(table, 0, 20)
    iceberg.tier(table)
    iceberg.append(table, 20, 20)
    iceberg.beat()

    async def call(**arguments: Any) -> Any:
        async for step in iceberg.coordinator.control.perform_with_progress(request_class(table.path, caller="ann", **arguments)):
            if isinstance(step, Progress):
                iceberg.clock.advance(1.5)
                iceberg.coordinator.table_records.wake_ups.notify()
        return step

    with closing(sqlite3.connect(urlsplit(iceberg.lake_properties["uri"]).path, isolation_level=None)) as catalog:
        catalog.execute("BEGIN EXCLUSIVE")
        watch = Watch()
        answer = asyncio.run(call(timeout_ms=1_500))
        assert 1.5 <= watch.seconds < 1.5 + ABOUT_S
    if request_class is TierTable:
        assert (answer.state, answer.lake_snapshot_id) == ("Pending", None)
    else:
        assert (answer.reached, answer.lake_snapshot_id) == (False, iceberg.record(table).lake.snapshot_id)


def test_a_cluster_that_hangs_is_not_taken_for_the_lake(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.append()
    answers, recorded = threading.Event(), world.cluster.lake_snapshot

    def hang(table: TableInfo) -> RecordedLakeSnapshot | None:
        assert answers.wait(HANGS_S)
        return recorded(table)

    monkeypatch.setattr(world.cluster, "lake_snapshot", hang)
    lines: list[str] = []

    async def call() -> None:
        async for step in world.coordinator.control.perform_with_progress(WaitForTiering(world.table.path, timeout_ms=1_000)):
            if isinstance(step, Progress):
                lines.append(step.message)
                world.clock.advance(1)
                world.coordinator.table_records.wake_ups.notify()

    try:
        asyncio.run(call())
    finally:
        answers.set()
    assert len(lines) == 1
    assert "the source cluster has not answered about the table sales.orders" in lines[0]
