"""Reads continue after an outage of the coordinator: nothing that they need was removed meanwhile, and they could not renew."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from support.background import tick
from support.fresh.held_logs import TIERED, WHOLE, ids, opened, renewed, retain
from support.worlds.lake_world import LakeWorld
from tiering.clock import RandomIds
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.readers.stored_holds import HOLD_AHEAD, StoredHolds
from tiering.errors import Fenced, LogTruncated, ReadExpired
from tiering.model.reading.open_reads import MAX_TTL, READ_TTL
from tiering.model.reading.scans import ReadPart, ReadScan
from tiering.model.tables import TableInfo
from tiering.union_read.task_codec import encode

ROWS = ReadScan(columns=("id",))
CHANGELOG = ReadScan(ReadPart.CHANGELOG, ("id",))
OUTAGE_S = timedelta(hours=2).total_seconds()
TTL_S = READ_TTL.total_seconds()


def planned(world: LakeWorld, ticket: bytes, scan: ReadScan = ROWS) -> tuple[list[bytes], bytes]:
    """The tasks of a scan as executors get them, and the ticket to use from now on."""
    tasks, new_ticket = world.coordinator.reads.plan(ticket, scan)
    return [encode(task) for task in tasks], new_ticket or ticket


def open_reads(world: LakeWorld) -> int:
    return len(world.coordinator.reads.open_reads.all())


@pytest.mark.parametrize(("scan", "kept"), [(ROWS, TIERED), (CHANGELOG, WHOLE)], ids=["rows", "changelog"])
def test_a_read_is_renewed_after_an_outage_and_has_its_rows(world: LakeWorld, table: TableInfo, scan: ReadScan, kept: list[int]) -> None:
    tasks, ticket = planned(world, opened(world, table), scan)
    world.restart(down_s=OUTAGE_S)
    assert retain(world, table) == kept

    ticket = renewed(world, ticket)
    for _ in range(8):
        world.clock.advance(TTL_S / 2)
        ticket = renewed(world, ticket)
    assert retain(world, table) == kept
    assert ids(tasks) == ids(planned(world, ticket, scan)[0]) == list(range(20))

    world.coordinator.reads.close(ticket)
    assert min(retain(world, table)) > min(TIERED)


@pytest.mark.parametrize("scan", [ROWS, CHANGELOG], ids=["rows", "changelog"])
def test_a_scan_is_planned_after_an_outage_before_the_first_renewal(world: LakeWorld, table: TableInfo, scan: ReadScan) -> None:
    ticket = opened(world, table)
    world.restart(down_s=OUTAGE_S)
    tasks, ticket = planned(world, ticket, scan)
    tick(world.coordinator)
    retain(world, table)
    assert ids(tasks) == list(range(20))
    assert open_reads(world) == (scan is CHANGELOG)  # a changelog renews
    assert [event for event in world.store.events() if event.event_type == "READ_EXPIRED"] == []
    renewed(world, ticket)
    assert open_reads(world) == 1


def test_what_no_reader_renews_after_an_outage_is_released(world: LakeWorld, table: TableInfo) -> None:
    tasks, ticket = planned(world, opened(world, table))
    world.restart(down_s=OUTAGE_S)
    world.clock.advance(TTL_S - 1)
    assert planned(world, ticket)[0] == tasks
    world.clock.advance(1)

    with pytest.raises(ReadExpired):
        renewed(world, ticket)
    with pytest.raises(ReadExpired):
        planned(world, ticket)
    assert min(retain(world, table)) > min(TIERED)
    with pytest.raises(LogTruncated):
        ids(tasks)
    assert world.store.read_holds() == []


def test_after_an_outage_of_a_day_the_read_has_expired(world: LakeWorld, table: TableInfo) -> None:
    ticket = opened(world, table)
    world.restart(down_s=(READ_TTL + HOLD_AHEAD + MAX_TTL).total_seconds())
    with pytest.raises(ReadExpired):
        renewed(world, ticket)
    assert min(retain(world, table)) > min(TIERED)


def test_a_read_continues_after_two_outages_between_which_it_could_not_renew(world: LakeWorld, table: TableInfo) -> None:
    tasks, ticket = planned(world, opened(world, table))
    world.restart(down_s=OUTAGE_S)
    world.restart(down_s=OUTAGE_S)
    world.restart(down_s=60)
    assert retain(world, table) == TIERED
    ticket = renewed(world, ticket)
    assert ids(planned(world, ticket)[0]) == ids(tasks) == list(range(20))


def test_outages_one_after_the_other_keep_what_dead_readers_needed_for_a_day(world: LakeWorld, table: TableInfo) -> None:
    ticket = opened(world, table)
    for _ in range(int(MAX_TTL.total_seconds() / OUTAGE_S)):
        world.restart(down_s=OUTAGE_S)
    assert retain(world, table) == TIERED
    world.restart(down_s=OUTAGE_S)
    with pytest.raises(ReadExpired):
        renewed(world, ticket)
    assert min(retain(world, table)) > min(TIERED)


def test_a_read_that_the_coordinator_saw_expire_stays_expired(world: LakeWorld, table: TableInfo) -> None:
    """A hold from before the start of the coordinator still keeps what the read needs, but the reader could have renewed."""
    ticket = opened(world, table)
    world.restart()
    ticket = renewed(world, ticket)
    world.clock.advance(TTL_S)
    assert retain(world, table) == TIERED
    with pytest.raises(ReadExpired):
        renewed(world, ticket)


def test_a_read_that_was_closed_after_an_outage_stays_closed(world: LakeWorld, table: TableInfo) -> None:
    ticket = opened(world, table)
    world.restart(down_s=OUTAGE_S)
    world.coordinator.reads.close(ticket)
    with pytest.raises(ReadExpired, match="was closed"):
        renewed(world, ticket)


def test_the_hold_of_another_read_does_not_revive_a_read(world: LakeWorld, table: TableInfo) -> None:
    ticket = opened(world, table)
    world.clock.advance((READ_TTL + HOLD_AHEAD).total_seconds())
    world.tier(table)
    other = opened(world, table)
    world.restart(down_s=OUTAGE_S)
    renewed(world, other)
    with pytest.raises(ReadExpired):
        renewed(world, ticket)


def test_a_hold_is_extended_in_the_store(world: LakeWorld, table: TableInfo) -> None:
    opened(world, table)
    [former] = world.store.read_holds()
    world.restart(down_s=OUTAGE_S)
    [hold] = world.store.read_holds()
    assert hold == replace(former, until=world.clock.now() + READ_TTL, first_until=former.until)


def test_a_deposed_coordinator_extends_no_hold(world: LakeWorld, table: TableInfo) -> None:
    opened(world, table)
    world.clock.advance(OUTAGE_S)
    deposed = TableRecords(world.store, world.clock, RandomIds(), CoordinatorOptions(), lambda: 0.0)
    world.store.take_over()
    with pytest.raises(Fenced):
        StoredHolds(deposed)
