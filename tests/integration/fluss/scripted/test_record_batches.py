"""Rounds, fresh reads and validation of logs with the record batches of Fluss 1.0, and of a version that this release does not know."""

from __future__ import annotations

import pytest

from support.background import tick
from support.clusters.fluss_log import MAGIC_PLACE
from support.on_call import call
from support.scripted.cluster import FIRST, ScriptedTable
from support.scripted.world import ScriptedFlussWorld, numbered_rows
from support.worlds.validated import check, faults
from tiering.errors import UnsupportedLogVersion
from tiering.model.rounds import RoundState

STATISTICS = {"table.statistics.columns": "*"}


def _write(world: ScriptedFlussWorld, table: ScriptedTable, start: int, version: int, count: int = 10) -> None:
    """One record batch; those of the versions 1 and 2 have statistics."""
    world.fluss.append(table, numbered_rows(start, count), version=version, statistics=b"\1 some statistics" if version and count else b"")


def test_a_table_gets_statistics_after_an_upgrade_and_its_lake_stays_exact(world: ScriptedFlussWorld) -> None:
    orders, info = world.create("orders")
    _write(world, orders, 0, version=0)
    assert world.tier(info).error is None
    world.fluss.upgrade()
    orders.properties |= STATISTICS
    for start, version, count in ((10, 1, 10), (20, 1, 0), (20, 2, 10), (30, 0, 10), (40, 2, 0), (40, 1, 10)):
        _write(world, orders, start, version, count)
    tick(world.coordinator)
    assert world.fresh_ids(info) == list(range(50))
    assert world.tier(info).error is None
    assert world.lake_ids(info) == list(range(50))
    assert world.fluss.recorded(orders) == {FIRST: 52}
    assert faults(check(world, info)) == []
    world.restart()
    assert world.tier(info).state is RoundState.EMPTY
    _write(world, orders, 50, version=1)
    assert world.tier(info).error is None
    assert world.lake_ids(info) == list(range(60))


@pytest.mark.parametrize("version", [1, 2])
def test_segments_in_remote_storage_are_tiered(world: ScriptedFlussWorld, version: int) -> None:
    world.fluss.upgrade()
    orders, info = world.create("orders", properties=STATISTICS)
    for start in range(0, 50, 10):
        _write(world, orders, start, version)
    world.fluss.move_to_remote(orders, FIRST)
    _write(world, orders, 50, version)
    tick(world.coordinator)
    assert world.fresh_ids(info) == list(range(60))
    assert world.tier(info).error is None
    assert world.lake_ids(info) == list(range(60))
    assert faults(check(world, info)) == []


@pytest.mark.parametrize("version", [0, 1, 2])
def test_record_batches_without_records_move_the_offsets_that_fluss_knows(world: ScriptedFlussWorld, version: int) -> None:
    orders, info = world.create("orders")
    _write(world, orders, 0, version)
    assert world.tier(info).error is None
    for _ in range(3):
        _write(world, orders, 10, version, count=0)
    assert world.tier(info).error is None
    assert world.fluss.recorded(orders) == {FIRST: 13}
    assert world.lake_ids(info) == list(range(10))


def test_a_table_with_a_later_version_waits_alone_and_continues_after_the_upgrade_of_lakeward(world: ScriptedFlussWorld) -> None:
    world.fluss.upgrade()
    (orders, info), (others, other_info) = world.create("orders"), world.create("others")
    _write(world, orders, 0, version=1)
    _write(world, others, 0, version=1)
    world.tier_all()
    _write(world, orders, 10, version=1)
    _write(world, orders, 20, version=2)
    _write(world, others, 10, version=2)
    start, stop, readable_batch = orders.logs[FIRST][-1]
    later = bytearray(readable_batch)
    later[MAGIC_PLACE] = 3
    orders.logs[FIRST][-1] = (start, stop, bytes(later))
    outcomes = world.outcomes()
    assert outcomes[other_info.table_id] is None
    assert isinstance(outcomes[info.table_id], UnsupportedLogVersion)
    [status] = world.coordinator.view().table_statuses("sales", "orders")
    assert (status.error_class, status.error_retryable, status.error_phase) == ("UnsupportedLogVersion", False, "READ")
    assert "version 3" in (status.last_error or "")
    assert "Upgrade Lakeward" in (status.error_hint or "")
    assert world.fluss.recorded(orders) == {FIRST: 10}
    assert world.lake_ids(info) == list(range(10))
    assert info.table_id not in world.outcomes()
    orders.logs[FIRST][-1] = (start, stop, readable_batch)  # what an upgraded Lakeward reads
    call(world.coordinator, "CALL fluss.sys.retry_tiering('sales.orders')")
    assert world.outcomes()[info.table_id] is None
    assert world.lake_ids(info) == list(range(30))
    assert faults(check(world, info)) == []
