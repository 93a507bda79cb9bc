"""The log that the scans of a changelog read is kept while they are open, and all scans of one read begin at the same offsets."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.fresh.held_logs import TIERED, TTL_S, WHOLE, ids, opened, renewed, retain
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.readers import reads as reads_module
from tiering.coordinator.readers.stored_holds import HOLD_AHEAD
from tiering.errors import LogTruncated, SourceChanged
from tiering.model.reading.open_reads import READ_TTL, UNRENEWED_TTL
from tiering.model.reading.scans import ReadMoment, ReadPart, ReadScan
from tiering.model.tables import BucketKey, TableInfo
from tiering.union_read.task_codec import encode

CHANGELOG = ReadScan(ReadPart.CHANGELOG, ("id",))


def planned(world: LakeWorld, ticket: bytes) -> tuple[list[bytes], bytes]:
    """The tasks of a scan of the changelog as executors get them, and the new ticket."""
    tasks, new_ticket = world.coordinator.reads.plan(ticket, CHANGELOG)
    assert new_ticket is not None
    return [encode(task) for task in tasks], new_ticket


def outlive_hold(world: LakeWorld, ticket: bytes) -> bytes:
    """Renews until all that was stored before is over."""
    for _ in range(7):
        world.clock.advance((READ_TTL + HOLD_AHEAD).total_seconds() / 6)
        ticket = renewed(world, ticket)
    return ticket


def test_the_log_of_an_open_changelog_stays_and_is_cut_after_the_end_of_the_read(world: LakeWorld, table: TableInfo) -> None:
    tasks, ticket = planned(world, opened(world, table))
    [read] = world.coordinator.reads.open_reads.all()
    assert read.moment.log_records == 20

    assert retain(world, table) == WHOLE
    ticket = outlive_hold(world, ticket)
    assert retain(world, table) == WHOLE
    assert ids(tasks) == ids(planned(world, ticket)[0]) == list(range(20))

    world.coordinator.reads.close(ticket)
    assert min(retain(world, table)) > min(TIERED)
    with pytest.raises(LogTruncated):
        ids(tasks)


def test_a_read_without_a_changelog_keeps_only_what_the_lake_lacks(world: LakeWorld, table: TableInfo) -> None:
    assert world.coordinator.reads.plan(opened(world, table), ReadScan())[1] is None
    assert retain(world, table) == TIERED


def test_the_log_of_a_changelog_stays_after_a_restart_before_the_first_renewal(world: LakeWorld, table: TableInfo) -> None:
    tasks, ticket = planned(world, opened(world, table))
    world.restart()

    assert retain(world, table) == WHOLE
    ticket = outlive_hold(world, ticket)
    world.restart()
    assert retain(world, table) == WHOLE
    ticket = outlive_hold(world, ticket)
    assert retain(world, table) == WHOLE
    assert ids(tasks) == ids(planned(world, ticket)[0]) == list(range(20))


def test_a_reader_that_never_renews_keeps_the_log_for_its_time_after_a_restart(world: LakeWorld, table: TableInfo) -> None:
    ttl_s = UNRENEWED_TTL.total_seconds()
    tasks, _ = planned(world, world.coordinator.reads.open(table.path, "python", "", int(ttl_s * 1_000)).ticket)
    world.restart()
    world.clock.advance(ttl_s / 2)
    world.restart()
    assert retain(world, table) == WHOLE
    assert ids(tasks) == list(range(20))
    world.clock.advance(ttl_s)
    assert min(retain(world, table)) > min(TIERED)


def test_a_count_of_the_changelog_and_its_records_are_of_the_same_log(world: LakeWorld, table: TableInfo) -> None:
    count, ticket = world.coordinator.reads.count(opened(world, table), CHANGELOG)
    assert (count, retain(world, table)) == (20, WHOLE)
    assert ticket is not None
    world.restart()
    assert len(ids(planned(world, ticket)[0])) == count


def test_a_renewal_with_the_ticket_before_the_scan_returns_one_that_has_the_changelog(world: LakeWorld, table: TableInfo) -> None:
    before = opened(world, table)
    tasks, _ = planned(world, before)
    ticket = renewed(world, before)
    world.restart()
    ticket = outlive_hold(world, ticket)
    assert retain(world, table) == WHOLE
    assert ids(tasks) == list(range(20))


def test_a_renewal_during_the_scan_keeps_the_changelog(world: LakeWorld, table: TableInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A renewal that was checked before the scan, and ends after it, does not forget what the scan reads."""
    before, ensure = opened(world, table), world.coordinator.reads._holds.ensure
    tasks: list[bytes] = []

    def scan_first(read: object) -> None:
        monkeypatch.undo()
        tasks.extend(planned(world, before)[0])
        ensure(read)  # type: ignore[arg-type]

    monkeypatch.setattr(world.coordinator.reads._holds, "ensure", scan_first)
    outlive_hold(world, renewed(world, before))
    assert retain(world, table) == WHOLE
    assert ids(tasks) == list(range(20))


def test_two_scans_at_once_begin_where_the_first_began(world: LakeWorld, table: TableInfo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is cut in between, as after OPENING_LIMIT: the later scan is an error, and never has fewer records."""
    ticket, fix = opened(world, table), reads_module.with_changelog_starts

    def after_another_scan(source: object, moment: ReadMoment) -> ReadMoment:
        monkeypatch.undo()
        assert ids(planned(world, ticket)[0]) == list(range(20))
        world.storage.keep_for_reads(lambda table_id: {})
        assert min(retain(world, table)) > 0
        return fix(source, moment)  # type: ignore[arg-type]

    monkeypatch.setattr(reads_module, "with_changelog_starts", after_another_scan)
    with pytest.raises(LogTruncated, match="starts at offset 10, after 0"):
        ids(planned(world, ticket)[0])


def test_nothing_is_cut_between_the_look_at_the_log_and_the_hold(
    world: LakeWorld, table: TableInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticket, fix = opened(world, table), reads_module.with_changelog_starts

    def retained(source: object, moment: ReadMoment) -> ReadMoment:
        fixed = fix(source, moment)  # type: ignore[arg-type]
        assert retain(world, table) == WHOLE
        return fixed

    world.tier(table)
    world.clock.advance(TTL_S + 1)
    monkeypatch.setattr("tiering.coordinator.readers.open_reads.OPENING_LIMIT", READ_TTL)
    monkeypatch.setattr(reads_module, "with_changelog_starts", retained)
    assert ids(planned(world, ticket)[0]) == list(range(20))


def test_a_changelog_of_a_partition_that_was_dropped_stays_an_error(world: LakeWorld) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.string(), nullable=False)])
    table = world.table("days", 1, ("day",), schema)
    world.storage.append(table.path, pa.table({"id": [1], "day": ["monday"]}, schema=schema), "writer", 0)
    ticket = opened(world, table)
    world.storage.drop_partition(table.path, "monday")
    with pytest.raises(SourceChanged, match="partition"):
        planned(world, ticket)


def test_the_starts_are_those_of_the_log_and_never_beyond_the_end_of_the_read(world: LakeWorld, table: TableInfo) -> None:
    ticket = opened(world, table)
    world.append(table, 20, 10)
    world.storage.keep_for_reads(lambda table_id: {})
    assert min(retain(world, table)) > 10
    tasks, _ = planned(world, ticket)
    [read] = world.coordinator.reads.open_reads.all()
    assert (tasks, dict(read.moment.changelog_starts)) == ([], {BucketKey(None, 0): 10, BucketKey(None, 1): 10})
