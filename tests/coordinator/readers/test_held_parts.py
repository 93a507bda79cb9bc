"""Open reads keep what they need: log records of an embedded cluster, until they are closed or expire."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.background import tick
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.decisions.records import Level
from tiering.coordinator.readers.open_reads import OPENING_LIMIT
from tiering.errors import LogTruncated
from tiering.model.reading.open_reads import READ_TTL
from tiering.model.reading.scans import ReadScan
from tiering.model.tables import BucketKey, TableInfo

TTL_S = 60


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path)
    yield lake_world
    lake_world.close()


def table_with_old_rows(world: LakeWorld) -> TableInfo:
    """Ten rows that are in the lake, and ten more that are not."""
    table = world.table("orders", log_ttl=f"{TTL_S} s")
    world.append(table, 0, 10)
    world.tier(table)
    world.append(table, 10, 10)
    return table


def tier_and_cut(world: LakeWorld, table: TableInfo) -> dict[BucketKey, int]:
    """Tiers all rows, and lets their time pass. Returns the first offset of each bucket's log after the retention."""
    world.tier(table)
    world.clock.advance(TTL_S + 1)
    world.storage.maintenance.run()
    return log_starts(world, table)


def log_starts(world: LakeWorld, table: TableInfo) -> dict[BucketKey, int]:
    return {bucket: offsets.log_start for bucket, offsets in world.storage.offsets(table).items()}


def ids(world: LakeWorld, ticket: bytes) -> list[int]:
    tasks, _ = world.coordinator.reads.plan(ticket, ReadScan(columns=("id",)))
    return sorted(value for task in tasks for batch in task.read() for value in batch.column("id").to_pylist())


def test_log_records_stay_while_a_read_needs_them(world: LakeWorld) -> None:
    table = table_with_old_rows(world)
    opened = world.coordinator.reads.open(table.path, "spark", "")
    starts = opened.read.moment.starting_offsets

    assert tier_and_cut(world, table) == dict(starts)
    assert ids(world, opened.ticket) == list(range(20))

    world.coordinator.reads.close(opened.ticket)
    world.storage.maintenance.run()
    after = log_starts(world, table)
    assert all(after[bucket] > starts[bucket] for bucket in starts)


def test_log_records_of_an_expired_read_are_cut_and_the_read_is_an_error(world: LakeWorld) -> None:
    table = table_with_old_rows(world)
    opened = world.coordinator.reads.open(table.path, "spark", "application 1")
    world.clock.advance(READ_TTL.total_seconds() + 1)
    tick(world.coordinator)
    assert world.coordinator.reads.open_reads.all() == ()

    starts = tier_and_cut(world, table)

    assert all(start > opened.read.moment.starting_offsets[bucket] for bucket, start in starts.items())
    [event] = [event for event in world.store.events() if event.event_type == "READ_EXPIRED"]
    assert (event.level, event.table_name, event.details["read_id"]) == (Level.WARN, "orders", opened.read.read_id)


def test_a_cut_between_the_offsets_of_a_read_names_bucket_and_offsets(world: LakeWorld) -> None:
    """The hold protects the log; correctness does not depend on it."""
    table = table_with_old_rows(world)
    opened = world.coordinator.reads.open(table.path, "spark", "")
    world.storage.keep_for_reads(lambda table_id: {})
    tier_and_cut(world, table)

    with pytest.raises(LogTruncated, match=r"bucket"):
        ids(world, opened.ticket)


def test_openings_that_overlap_without_a_gap_stop_the_retention_for_a_limited_time(world: LakeWorld) -> None:
    table = table_with_old_rows(world)
    world.tier(table)
    world.clock.advance(TTL_S + 1)
    before, reads = log_starts(world, table), world.coordinator.reads.open_reads
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(reads.opening(table.table_id))
        world.clock.advance(OPENING_LIMIT.total_seconds() - 1)
        second.enter_context(reads.opening(table.table_id))
        first.close()
        world.storage.maintenance.run()
        assert log_starts(world, table) == before

        world.clock.advance(1)
        world.storage.maintenance.run()
        after = log_starts(world, table)
        assert all(after[bucket] > before[bucket] for bucket in before)
    with reads.opening(table.table_id):
        assert reads.kept_log(table.table_id) is None


def test_a_read_of_the_plain_source_expires_without_an_event(world: LakeWorld) -> None:
    """The planner of the source ends before the rows are read, so no process closes the read."""
    table = table_with_old_rows(world)
    world.coordinator.reads.open(table.path, "python", "")
    world.clock.advance(READ_TTL.total_seconds() + 1)
    tick(world.coordinator)
    assert [event for event in world.store.events() if event.event_type == "READ_EXPIRED"] == []
