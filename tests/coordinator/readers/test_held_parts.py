"""Open reads keep what they need: log records of an embedded cluster, until they are closed or expire."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from support.background import tick
from support.fresh.held_logs import TIERED, TTL_S, ids, opened, planned, retain, starts
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.decisions.records import Level
from tiering.coordinator.readers.open_reads import OPENING_LIMIT
from tiering.errors import LogTruncated
from tiering.model.reading.open_reads import READ_TTL
from tiering.model.tables import TableInfo


def test_log_records_stay_while_a_read_needs_them(world: LakeWorld, table: TableInfo) -> None:
    ticket = opened(world, table)

    assert retain(world, table) == TIERED
    assert ids(planned(world, ticket)) == list(range(20))

    world.coordinator.reads.close(ticket)
    world.storage.maintenance.run()
    assert min(starts(world, table)) > min(TIERED)


def test_log_records_of_an_expired_read_are_cut_with_an_event(world: LakeWorld, table: TableInfo) -> None:
    expired = world.coordinator.reads.open(table.path, "spark", "application 1")
    world.clock.advance(READ_TTL.total_seconds() + 1)
    tick(world.coordinator)
    assert world.coordinator.reads.open_reads.all() == ()

    assert min(retain(world, table)) > min(TIERED)
    [event] = [event for event in world.store.events() if event.event_type == "READ_EXPIRED"]
    assert (event.level, event.table_name, event.details["read_id"]) == (Level.WARN, "orders", expired.read.read_id)


def test_a_cut_between_the_offsets_of_a_read_names_bucket_and_offsets(world: LakeWorld, table: TableInfo) -> None:
    """The hold protects the log; correctness does not depend on it."""
    ticket = opened(world, table)
    world.storage.keep_for_reads(lambda table_id: {})
    retain(world, table)

    with pytest.raises(LogTruncated, match=r"bucket \d .* offset"):
        ids(planned(world, ticket))


def test_openings_that_overlap_without_a_gap_stop_the_retention_for_a_limited_time(world: LakeWorld, table: TableInfo) -> None:
    world.tier(table)
    world.clock.advance(TTL_S + 1)
    before, reads = starts(world, table), world.coordinator.reads.open_reads
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(reads.opening(table.table_id))
        world.clock.advance(OPENING_LIMIT.total_seconds() - 1)
        second.enter_context(reads.opening(table.table_id))
        first.close()
        world.storage.maintenance.run()
        assert starts(world, table) == before

        world.clock.advance(1)
        world.storage.maintenance.run()
        assert min(starts(world, table)) > max(before)
    with reads.opening(table.table_id):
        assert reads.kept_log(table.table_id) is None


def test_a_read_of_the_plain_source_expires_without_an_event(world: LakeWorld, table: TableInfo) -> None:
    """The planner of the source ends before the rows are read, so no process closes the read."""
    world.coordinator.reads.open(table.path, "python", "")
    world.clock.advance(READ_TTL.total_seconds() + 1)
    tick(world.coordinator)
    assert [event for event in world.store.events() if event.event_type == "READ_EXPIRED"] == []
