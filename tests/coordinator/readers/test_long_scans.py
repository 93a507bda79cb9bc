"""A scan of an hour has the rows of its beginning beside rounds, upkeep, expiry, sweeps and retention. After its end all is removed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from support.fresh.held_logs import planned, rows_of
from support.lake_kinds.kinds import LAKE_KINDS
from support.upkeep.aged_world import AgedWorld
from support.upkeep.long_scans import (
    HOUR,
    STEP,
    data_files,
    is_released,
    live_for,
    long_world,
    table_to_read,
)
from tiering.coordinator.readers.open_reads import OpenReads
from tiering.errors import LakeUnavailable, LogTruncated
from tiering.model.reading.open_reads import READ_TTL, UNRENEWED_TTL
from tiering.model.tables import TableInfo

RELEASED = {"log": True, "snapshot": True, "files": True}
KEPT = dict.fromkeys(RELEASED, False)


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgedWorld]:
    with long_world(tmp_path, request.param) as long:
        yield long


@pytest.fixture(params=[False, True], ids=["log", "primary key"])
def table(request: pytest.FixtureRequest, world: AgedWorld) -> TableInfo:
    return table_to_read(world, has_primary_key=request.param)


def test_a_scan_of_an_hour_has_the_rows_of_its_beginning_and_then_releases_them(world: AgedWorld, table: TableInfo, tmp_path: Path) -> None:
    reads = world.coordinator.reads
    opened, files = reads.open(table.path, "spark", "application 1"), data_files(tmp_path)
    tasks, ticket = planned(world, opened.ticket), opened.ticket
    expected = rows_of(tasks)

    def renew() -> None:
        nonlocal ticket
        _, ticket = reads.renew(ticket)

    live_for(world, table, HOUR, 2, renew)

    assert is_released(world, table, opened, files) == KEPT
    assert rows_of(tasks) == rows_of(planned(world, ticket)) == expected
    reads.close(ticket)
    live_for(world, table, STEP * 4, 50)
    assert is_released(world, table, opened, files) == RELEASED


def test_what_a_dead_reader_needed_is_removed_once_its_read_has_expired(world: AgedWorld, table: TableInfo, tmp_path: Path) -> None:
    opened, files = world.coordinator.reads.open(table.path, "spark", "application 1"), data_files(tmp_path)
    tasks = planned(world, opened.ticket)

    live_for(world, table, READ_TTL + STEP * 4, 2)

    assert is_released(world, table, opened, files) == RELEASED
    with pytest.raises((LogTruncated, LakeUnavailable)):
        rows_of(tasks)


def test_a_read_without_renewals_is_kept_for_the_time_for_which_it_was_opened(world: AgedWorld, table: TableInfo, tmp_path: Path) -> None:
    ttl_ms = UNRENEWED_TTL // timedelta(milliseconds=1)
    opened, files = world.coordinator.reads.open(table.path, "python", "", ttl_ms), data_files(tmp_path)
    tasks = planned(world, opened.ticket)
    expected = rows_of(tasks)

    live_for(world, table, UNRENEWED_TTL - STEP * 3, 2)
    assert rows_of(tasks) == expected

    live_for(world, table, STEP * 6, 50)
    assert is_released(world, table, opened, files) == RELEASED
    with pytest.raises((LogTruncated, LakeUnavailable)):
        rows_of(tasks)


@pytest.mark.parametrize(("part", "error"), [("log", LogTruncated), ("lake", LakeUnavailable)])
def test_without_its_hold_a_scan_of_an_hour_is_an_error(
    world: AgedWorld, table: TableInfo, part: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    method, nothing = ("kept_log", {}) if part == "log" else ("kept_snapshots", frozenset())
    monkeypatch.setattr(OpenReads, method, lambda reads, table_id: nothing)
    world.restart()
    reads = world.coordinator.reads
    tasks = planned(world, ticket := reads.open(table.path, "spark", "").ticket)

    def renew() -> None:
        nonlocal ticket
        _, ticket = reads.renew(ticket)

    live_for(world, table, HOUR / 2, 2, renew)

    with pytest.raises(error):
        rows_of(tasks)
