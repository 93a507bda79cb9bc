"""The background work of a serving coordinator, in a real event loop."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from support.clusters.memory_cluster import log_table
from support.lakes.broken_lakes import lost, tiered
from support.worlds.coordinator_world import World
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.server.background import BACKGROUND_SHARE, FIRST_SHARE, Background
from tiering.errors import ClusterUnavailable
from tiering.lake.base import LakeView
from tiering.model.tables import TablePath
from tiering.throttle import Throttle, Throttling

QUICK = CoordinatorOptions(tick_interval_ms=1, discovery_interval_ms=1, observe_interval_ms=1)


async def running(world: World | LakeWorld, until: Callable[[], bool], fenced: Callable[[], None] = lambda: None) -> None:
    """The background of a coordinator, until something is so; at most 20 s."""
    background = Background(world.coordinator, fenced)
    try:
        async with asyncio.timeout(20):
            while not until():
                await asyncio.sleep(0.001)
    finally:
        await background.stop()
        await background.stop()
        world.coordinator.close()


def test_time_tables_and_logs_are_looked_at() -> None:
    world = World(options=QUICK)
    del world.cluster.by_path[world.table.path]
    world.append(7)
    world.coordinator.discovery.run()
    world.cluster.by_path[world.table.path] = world.table
    world.clock.advance(1_000)

    def is_observed() -> bool:
        lags = [world.coordinator.observer.lag(record) for record in world.coordinator.table_records.live() if record.state == "Pending"]
        return [lag.records for lag in lags if lag is not None] == [7]

    asyncio.run(running(world, is_observed))


def test_the_first_look_at_all_logs_may_take_a_larger_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world, shares = World(options=QUICK), list[float]()

    def until(ended: threading.Event, share: float) -> Throttle:
        shares.append(share)
        return Throttle(share, ended.wait)

    monkeypatch.setattr(Throttle, "until", until)
    asyncio.run(running(world, lambda: len(shares) > 2))
    assert shares[:3] == [FIRST_SHARE, BACKGROUND_SHARE, BACKGROUND_SHARE]


def test_failed_tables_are_looked_at(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    source = tiered(world, False, False)
    lost(source)
    source.tier()

    def has_way_out() -> bool:
        error = world.record(source.info).error
        return error is not None and error.way_out is not None

    asyncio.run(running(world, has_way_out))


def test_what_is_known_of_many_tables_is_no_matter_for_the_garbage_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.coordinator.server.background.MANY_TABLES", 2)
    few, many = World(options=QUICK), World(tuple(log_table(number, TablePath("many", f"t{number}")) for number in (1, 2)), QUICK)
    looks = list[None]()
    look = few.coordinator.observer.observe_all
    monkeypatch.setattr(few.coordinator.observer, "observe_all", lambda throttle: looks.append(look(throttle)))
    asyncio.run(running(few, lambda: len(looks) > 1 or gc.get_freeze_count() > 0))
    assert len(looks) > 1
    asyncio.run(running(many, lambda: gc.get_freeze_count() > 0))
    assert gc.get_freeze_count() == 0, "as it was, once it is over"


class Panic(BaseException):
    """A panic like those of libraries in Rust: no `Exception`."""


def test_work_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world, tried = World(options=QUICK), list[BaseException]()
    ends = (ClusterUnavailable("away"), RuntimeError("never seen before"), Panic("not aligned"), SystemExit(1))

    def failing(throttle: Throttling) -> None:
        tried.append(ends[len(tried) % len(ends)])
        raise tried[-1]

    monkeypatch.setattr(world.coordinator.observer, "observe_all", failing)
    asyncio.run(running(world, lambda: len(tried) > len(ends)))


def test_the_end_ends_a_pass_that_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    world, resting, ended = World(options=QUICK), threading.Event(), list[bool]()
    monkeypatch.setattr("tiering.coordinator.server.background.FIRST_SHARE", 1e-9)

    def all_day(throttle: Throttling) -> None:
        resting.set()
        while throttle():  # for weeks, once two milliseconds were worked
            pass
        ended.append(True)

    monkeypatch.setattr(world.coordinator.observer, "observe_all", all_day)
    asyncio.run(running(world, resting.is_set))
    for thread in threading.enumerate():
        if thread.name.startswith("background"):
            thread.join(20)
    assert ended == [True]


def test_a_coordinator_whose_store_was_taken_over_says_so() -> None:
    world, fenced = World(options=QUICK), threading.Event()
    world.another().close()
    world.clock.advance(1_000)
    asyncio.run(running(world, fenced.is_set, fenced.set))


class CatalogInMemory:
    """A second catalog that remembers the head that each table has there."""

    name, lake_format = "memory", "iceberg"

    def __init__(self) -> None:
        self.heads: dict[TablePath, int | None] = {}

    def publish(self, view: LakeView, check_lead: Callable[[], None]) -> None:
        check_lead()
        self.heads[view.path] = view.head


def test_lake_tables_are_published_in_the_second_catalog(tmp_path: Path) -> None:
    world, catalog = LakeWorld(tmp_path), CatalogInMemory()
    world.second_catalog = catalog
    world.restart()
    table = world.table("orders")
    world.append(table, 0, 10)
    assert world.tier(table).error is None
    asyncio.run(running(world, lambda: catalog.heads == {table.path: world.view(table).head}))
