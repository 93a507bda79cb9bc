"""SQL, the console, reports, tasks, misses and metrics judge the promise of each table alike, in drawn states."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from support.clusters.memory_cluster import log_table
from support.services.sys_catalog import serving
from support.values.drawn_records import disturb
from support.worlds.coordinator_world import World
from sys_tables.catalog_client import SystemCatalog
from sys_tables.console.overview import BY_PROMISE, PROMISES, UNKNOWN_PROMISE, Search, overview
from sys_tables.console.reader import Reader
from sys_tables.console.views.table_page import table_page
from sys_tables.offline.engine import OfflineEngine, OfflineSource
from sys_tables.query.reading import statement_view_of
from sys_tables.registry import default_registry
from tiering.cli.report.table_report import TableHistory, verdict
from tiering.client.tasks import why_not_fresh
from tiering.model.status import TableStatus
from tiering.model.tables import BucketKey, Offsets, TableInfo, TablePath
from tiering.telemetry.coordinator_metrics import figures

TABLES = 60
PAGES = 2


def drawn_world(seed: random.Random, monkeypatch: pytest.MonkeyPatch) -> World:
    """Returns a coordinator whose tables are in any state, with rows of any age; the age of some rows is unknown."""
    world = World(tuple(log_table(number, TablePath("d", f"t{number:02}"), buckets=1) for number in range(1, TABLES + 1)))
    world.clock.advance(3_600)
    ages = {number: seed.choice([0, 1, 179, 180, 181, 900, 1_000, None]) for number in range(1, TABLES + 1)}

    def times(table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        age = ages[table.table_id]
        return {} if age is None else dict.fromkeys(offsets, world.clock.wall - timedelta(seconds=age))

    monkeypatch.setattr(world.cluster, "oldest_timestamps", times)
    for table in seed.sample(world.tables, 2 * TABLES // 3):
        world.append(table=table)
    world.coordinator.observer.observe_all()
    disturb(world, seed, TABLES)
    return world


def by_sql(world: World) -> tuple[dict[str, str], dict[str, int], set[str], set[str]]:
    """Returns the promise of each table, the numbers of the overview's SQL, the broken promises, and the lags above the freshness."""

    def unused(*arguments: object) -> Any:
        raise AssertionError("only system tables are read")

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in engine.execute(sql).rows]

    engine = OfflineEngine(
        OfflineSource(lambda: statement_view_of(world.coordinator.view()), unused, unused, "iceberg", unused, start_command=None)
    )
    promises = {name: promise or UNKNOWN_PROMISE for name, promise in rows("SELECT table_name, promise FROM sys.lake_tiering_status")}
    counts = {promise or UNKNOWN_PROMISE: tables for promise, tables in rows(BY_PROMISE.sql())}
    misses = {name for [name] in rows("SELECT table_name FROM sys.freshness_misses WHERE reached_at IS NULL")}
    late = {name for [name] in rows("SELECT table_name FROM sys.lake_tiering_status WHERE lag_ms > freshness_ms")}
    return promises, counts, misses, late


def by_console(port: int, names: list[str], now: datetime) -> tuple[dict[str, str], dict[str, int], dict[str, str], dict[str, str]]:
    """Returns the promise of each table in the list, the numbers, the tables under each number, and the promise on pages of tables."""
    with SystemCatalog(f"127.0.0.1:{port}") as catalog:
        reader = Reader(catalog, default_registry())
        pages = [overview(reader, Search(sort="name", page=number), now) for number in range(1, PAGES + 1)]
        listed = {row["table_name"]: row["promise"] or UNKNOWN_PROMISE for page in pages for row in page.listed.rows}
        counts = {count.name: count.tables for count in pages[0].promises if count.tables}
        under = {
            row["table_name"]: promise
            for promise in PROMISES
            for number in range(1, PAGES + 1)
            for row in overview(reader, Search(promise=promise, page=number), now).listed.rows
        }
        return listed, counts, under, {name: table_page(reader, "d", name).promise for name in names}


def promise_in_words(status: TableStatus) -> str:
    """Returns the promise that a report states."""
    words = verdict(status, TableHistory([], [], [], [], [], [], []))
    if "is unknown" in words:
        return UNKNOWN_PROMISE
    if "so far, but" in words:
        return "at risk"
    return "kept" if "keeps its promise" in words else "broken"


@pytest.mark.parametrize("story", range(4))
def test_all_readers_of_a_promise_agree(story: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.Random(story)
    world = drawn_world(seed, monkeypatch)
    now = world.coordinator.table_records.now()
    statuses = world.coordinator.view().table_statuses()
    promises = {status.table_name: status.promise or UNKNOWN_PROMISE for status in statuses}
    names = seed.sample(sorted(promises), 5)

    async def read() -> tuple[tuple[object, ...], tuple[object, ...]]:
        async with serving(world.coordinator) as client:
            return await asyncio.to_thread(by_sql, world), await asyncio.to_thread(by_console, client.port, names, now.wall)

    sql, console = asyncio.run(read())
    counts = dict(Counter(promises.values()))
    broken = {name for name, promise in promises.items() if promise == "broken"}
    assert set(counts) == set(PROMISES)
    assert sql == (promises, counts, broken, broken)
    assert console == (promises, counts, promises, {name: promises[name] for name in names})
    assert {status.table_name: promise_in_words(status) for status in statuses} == promises
    records = [record for record in world.coordinator.table_records.all().values() if record.state is not None]
    metrics = [figures(record, world.coordinator.observer.lag(record), now) for record in records]
    assert {metric.record.table_name for metric in metrics if metric.behind_seconds} == broken
    fresh = {status.table_name for status in statuses if why_not_fresh(status) is None}
    assert fresh == {name for name, promise in promises.items() if promise in ("kept", "at risk")}
    world.coordinator.close()
