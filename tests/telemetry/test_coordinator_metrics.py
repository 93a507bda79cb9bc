"""The coordinator's metrics, as a real scrape of a real coordinator has them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from support.clusters.memory_cluster import log_table
from support.operators import pause
from support.worlds.coordinator_world import FRESHNESS, World
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import UpkeepPause
from tiering.lake.health.score import ILL_SCORE
from tiering.model.leases import KvSnapshotLease, LeasedSnapshot
from tiering.model.tables import BucketKey, TableBucket, TablePath
from tiering.telemetry.coordinator_metrics import CoordinatorCollector
from tiering.telemetry.metrics import (
    DEAD_ROW_SHARE,
    FILE_SIZE,
    HEALTH_SCORE,
    LAKE_FILES,
    LINEAGE_EVENTS,
    LINEAGE_WAITING,
    METADATA_BYTES,
    METRICS,
    RECORD_COUNT,
    SMALL_FILES,
    Process,
)

Samples = dict[tuple[str, tuple[str, ...]], float]


def scrape(world: World | LakeWorld, shown_tables: int = 500) -> Samples:
    """Samples by name and values of their labels."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(CoordinatorCollector(world.coordinator, shown_tables))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {(sample.name, tuple(sample.labels.values())): sample.value for family in families for sample in family.samples}


def many(count: int) -> World:
    return World(tuple(log_table(number, TablePath("sales", f"t{number:05}")) for number in range(1, count + 1)))


def hold_lease(world: World) -> None:
    """The cluster has a lease on one KV snapshot, a minute of which is left."""
    now = world.clock.wall
    snapshot = LeasedSnapshot(TableBucket(world.table.table_id, BucketKey(None, 0)), 7, 100)
    lease = KvSnapshotLease("lease-1", now, now, now + timedelta(seconds=60), 60_000, (snapshot,))
    world.cluster.leases = lambda: [lease]  # type: ignore[method-assign]  # it has none of its own


def of_table(samples: Samples, table: str) -> dict[str, float]:
    return {name: value for (name, labels), value in samples.items() if labels == ("sales", table)}


def test_a_table_has_fluss_metrics_and_ours() -> None:
    world = World()
    tierer, assignment = world.assigned()
    world.append()
    tierer.run(assignment)
    world.clock.advance(20)
    world.append()
    world.coordinator.observer.observe_all()
    world.clock.advance(30)
    table = of_table(scrape(world), "orders")
    fluss = {name.removeprefix("lakeward_lakeTiering_table_"): value for name, value in table.items() if "lakeTiering" in name}
    assert fluss.keys() >= {"tierLag", "tieredTimestamp", "tierDuration", "failuresTotal", "pendingTime", "freshness"}
    assert (fluss["tierLag"], fluss["failuresTotal"], fluss["pendingTime"], fluss["freshness"]) == (50_000, 0, 0, FRESHNESS * 1_000)
    assert fluss["tieredTimestamp"] == pytest.approx(world.clock.wall.timestamp() * 1_000 - 50_000)
    assert table["lakeward_table_pending_records"] == 10
    assert table["lakeward_table_behind_seconds"] > 0, "rows of the memory cluster are from the start of time"


def test_states_failures_and_waits_are_counted() -> None:
    world = many(3)
    for table in world.tables:
        world.append(table=table)
    world.due()
    tierer = world.tierer()
    tierer.fail(tierer.get(), error_message="disk full")
    tierer.get()
    pause(world.coordinator, world.tables[2].path, "bob", "moving house")
    world.clock.advance(7)
    samples = scrape(world)
    assert samples["lakeward_lakeTiering_runningTablesCount", ()] == 1
    assert samples["lakeward_tables", ("Tiering",)] == 1
    assert samples["lakeward_tables_failing", ("yes",)] == 1
    assert samples["lakeward_tables_paused", ()] == 1
    assert samples["lakeward_failures", ()] == 1
    assert samples["lakeward_tierers", ("ACTIVE",)] == 1
    assert samples["lakeward_tierers_silent_seconds", ("tierer-1",)] == 7
    assert [labels[1] for (name, labels), value in samples.items() if name == "lakeward_table_consecutive_failures" and value] == ["t00001"]
    assert [labels[1] for (name, labels), value in samples.items() if name.endswith("_pendingTime") and value == 7_000] == ["t00003"]


def test_leases_and_the_time_that_the_first_has_left() -> None:
    world = World()
    hold_lease(world)
    samples = scrape(world)
    assert samples["lakeward_kvSnapshotLeaseCount", ()] == 1
    assert samples["lakeward_leasedKvSnapshotCount", ()] == 1
    assert samples["lakeward_kv_snapshot_lease_remaining_seconds_min", ()] == 60


def test_above_the_bound_the_worst_are_shown_and_the_others_counted() -> None:
    world = many(20)
    late, failing = world.tables[15], world.tables[18]
    for table in world.tables[:5]:
        world.append(table=table)
    world.append(table=failing)
    world.due()
    tierer = world.tierer()
    while (assignment := tierer.beat(request=True).tiering_table).round_id:
        if assignment.table_id == failing.table_id:
            tierer.fail(assignment, error_message="disk full")
        else:
            tierer.run(assignment)
    world.append(30, table=late)
    world.clock.advance(10)
    world.coordinator.observer.observe_all()
    samples = scrape(world, 3)
    shown = {labels[1] for (name, labels) in samples if name == "lakeward_lakeTiering_table_freshness"}
    assert shown == {"t00001", late.path.table_name, failing.path.table_name}
    assert samples["lakeward_tables_left_out", ()] == 17
    assert samples["lakeward_left_out_pending_records", ()] == 0
    assert samples["lakeward_pending_records", ()] == 40
    every = scrape(world)
    assert every["lakeward_tables_left_out", ()] == 0
    assert len({labels for (name, labels) in every if name == "lakeward_lakeTiering_table_freshness"}) == 20


def test_the_series_of_a_dropped_table_vanish() -> None:
    world = many(2)
    assert of_table(scrape(world), "t00001")
    del world.cluster.by_path[world.tables[0].path]
    world.later(5)
    samples = scrape(world)
    assert not of_table(samples, "t00001")
    assert of_table(samples, "t00002")


def test_every_metric_of_the_coordinator_is_declared_and_scraped() -> None:
    world = World()
    hold_lease(world)
    tierer, assignment = world.assigned()
    world.append()
    tierer.run(assignment)
    world.coordinator.observer.observe_all()
    samples = scrape(world)
    declared = {metric.name: len(metric.labels) for metric in METRICS if metric.process is Process.COORDINATOR}
    of_real_lakes = (FILE_SIZE, RECORD_COUNT, LAKE_FILES, HEALTH_SCORE, SMALL_FILES, DEAD_ROW_SHARE, METADATA_BYTES)
    of_an_endpoint = (LINEAGE_EVENTS, LINEAGE_WAITING)
    for metric in (*of_real_lakes, *of_an_endpoint):  # the lake in memory has no files, and no endpoint of OpenLineage is set
        del declared[metric.name]
    assert {name: len(labels) for name, labels in samples} == declared


def test_the_health_of_a_lake_table_is_scraped_once_it_was_looked_at(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    table = world.table("orders")
    world.append(table, 0, 20)
    assert world.tier(table).error is None
    assert "lakeward_table_health_score" not in of_table(scrape(world), "orders")
    world.coordinator.lake_health.observe()
    metrics = of_table(scrape(world), "orders")
    metadata = [file.stat().st_size for file in tmp_path.glob("lake/**/metadata/*")]
    assert (metrics["lakeward_table_health_score"], metrics["lakeward_table_small_files"]) == (100, 2)
    assert (metrics["lakeward_table_dead_row_share"], metrics["lakeward_table_metadata_bytes"]) == (0, sum(metadata))
    world.close()


def test_tables_whose_upkeep_needs_an_operator_are_counted(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    table = world.table("orders")
    for number in range(3):
        world.append(table, number * 20, 20)
        assert world.tier(table).error is None
    record = world.record(table)
    upkeep = replace(record.upkeep, failures=2, pause=UpkeepPause("ann", "a backfill", world.clock.wall))
    with world.coordinator.table_records.changing():
        world.coordinator.table_records.put(Change(replace(record, upkeep=upkeep)))
    world.coordinator.lake_health.observe()
    samples = scrape(world)
    observation = world.coordinator.lake_health.observation(world.record(table))
    assert observation is not None
    assert observation.health is not None
    assert observation.measure is not None
    assert samples["lakeward_tables_unhealthy", ()] == (observation.health.score < ILL_SCORE)
    assert samples["lakeward_rewrite_bytes", ()] == observation.measure.files.rewrite_bytes
    assert (samples["lakeward_tables_upkeep_failing", ()], samples["lakeward_tables_upkeep_paused", ()]) == (1, 1)
    world.close()


@contextmanager
def locked(world: World) -> Iterator[None]:
    """Another thread holds the lock of all changes."""
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with world.coordinator.table_records.changing():
            held.set()
            release.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    try:
        yield
    finally:
        release.set()
        thread.join()


def test_a_scrape_of_ten_thousand_tables_takes_no_lock_and_leaves_the_event_loop_its_turns() -> None:
    world = many(10_000)
    world.coordinator.observer.observe_all()

    async def gaps_while_scraping() -> tuple[list[float], float]:
        loop, gaps = asyncio.get_running_loop(), []
        started = time.perf_counter()
        scraping = loop.run_in_executor(None, scrape_size, world)
        before = started
        while not scraping.done():
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            gaps.append(now - before)
            before = now
        assert await scraping < 2 << 20
        return gaps, before - started

    with locked(world):
        scrapes = (asyncio.run(gaps_while_scraping()) for _ in range(30))  # until one has its turns: a busy machine takes those of some
        assert any(len(gaps) >= 5 and max(gaps) < max(0.25, seconds / 2) for gaps, seconds in scrapes), "the loop has turns all along"


def scrape_size(world: World) -> int:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(CoordinatorCollector(world.coordinator))
    return len(generate_latest(registry))
