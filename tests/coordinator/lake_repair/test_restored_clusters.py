"""The embedded cluster's folder is restored from an older copy while the lake is newer: no acknowledged row is lost without a word."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import aclosing
from typing import Any

import pyarrow as pa
import pytest

from support.on_call import call, in_lake, next_action
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from tiering import errors
from tiering.model.tables import TableInfo
from tiering.procedures.base import Progress
from tiering.procedures.tier_table import TierTable
from tiering.procedures.wait_for_tiering import WaitForTiering

pytestmark = pytest.mark.in_turn("world")


@pytest.fixture(params=[False, True], ids=["log", "primary key"])
def table(request: pytest.FixtureRequest, world: LakeWorld) -> TableInfo:
    if request.param:
        return world.primary_key_table("orders", 1, log_ttl="1 h", kv_snapshot_interval="365 d")
    return world.table("orders", 1, log_ttl="1 h")


def write(world: LakeWorld, table: TableInfo, start: int, count: int, text: str = "row") -> None:
    rows = pa.table({"id": range(start, start + count), "text": [text] * count}, schema=PRIMARY_KEY_SCHEMA)
    put = world.storage.upsert if table.primary_key else world.storage.append
    put(table.path, rows, f"{text}-{start}", 0)


def restored(world: LakeWorld, table: TableInfo) -> None:
    """Ten rows are tiered before the copy, fifty after it; sixty others are written to the restored cluster."""
    write(world, table, 0, 10)
    assert world.tier(table).error is None
    root = world.storage.root
    copy = root.with_name("copy")
    world.coordinator.close()
    world.storage.close()
    shutil.copytree(root, copy)
    world.reopen()
    write(world, table, 10, 50, "lost by the cluster")
    assert world.tier(table).error is None
    world.coordinator.close()
    world.storage.close()
    shutil.rmtree(root)
    copy.rename(root)
    world.reopen()


def ids(world: LakeWorld, table: TableInfo) -> list[int]:
    return sorted(world.by_hand.rows(table.path)["id"].to_pylist())


def rename_as_told(world: LakeWorld, table: TableInfo) -> str:
    """Does what the status names, and returns the former table's name. Spark has no statement for a table of Paimon: the hint says it."""
    statement = next_action(world.coordinator, table)
    if world.lake_format == "paimon":
        assert statement is None
        [status] = world.coordinator.view().table_statuses()
        assert "Rename or drop the lake table sales.orders in the lake's catalog" in (status.error_hint or "")
        world.by_hand.rename(table.path, "former")
        return "former"
    assert statement is not None
    name = statement.rpartition(" ")[2]
    assert statement == f"ALTER TABLE lake.sales.orders RENAME TO {name}"
    in_lake(world)(statement)
    return name


def test_rows_that_are_written_where_the_lake_has_others_park_the_table(world: LakeWorld, table: TableInfo) -> None:
    restored(world, table)
    write(world, table, 100, 60, "after the restore")
    outcome = world.tier(table)
    assert isinstance(outcome.error, errors.LogRewritten)
    assert ids(world, table) == list(range(60))


def test_the_next_action_loses_neither_the_lakes_rows_nor_the_logs(world: LakeWorld, table: TableInfo) -> None:
    restored(world, table)
    write(world, table, 100, 60, "after the restore")
    assert isinstance(world.tier(table).error, errors.LogRewritten)
    name = rename_as_told(world, table)
    retier = next_action(world.coordinator, table)
    assert retier == "CALL fluss.sys.reconcile_lake('sales.orders', 'retier')"
    call(world.coordinator, retier)
    assert world.tier(table).error is None
    assert ids(world, table) == [*range(10), *range(100, 160)]
    former = world.by_hand.rows(type(table.path)("sales", name))["id"].to_pylist()
    assert sorted(former) == list(range(60))
    assert next_action(world.coordinator, table) is None


def test_a_table_parked_behind_its_lake_is_not_resumed_once_its_log_is_longer(world: LakeWorld, table: TableInfo) -> None:
    restored(world, table)
    assert isinstance(world.tier(table).error, errors.LogBehindLake)
    assert next_action(world.coordinator, table) is None
    write(world, table, 100, 60, "after the restore")
    rename_as_told(world, table)
    assert world.record(table).state == "Failed"


def test_retention_removes_nothing_by_a_lake_that_has_other_records(world: LakeWorld, table: TableInfo) -> None:
    restored(world, table)
    write(world, table, 100, 60, "after the restore")
    assert world.tier(table).error is not None
    if table.primary_key:
        world.storage.take_kv_snapshots(table.path)
    world.clock.advance(3_601)
    world.storage.maintenance.run()
    [log] = world.storage.offsets(table).values()
    assert log.log_start <= 10


def test_accept_goes_on_behind_the_lakes_rows_of_a_log_table_alone(world: LakeWorld, table: TableInfo) -> None:
    restored(world, table)
    write(world, table, 100, 60, "after the restore")
    assert isinstance(world.tier(table).error, errors.LogRewritten)
    statement = "CALL fluss.sys.reconcile_lake('sales.orders', 'accept')"
    if table.primary_key:
        with pytest.raises(errors.CannotReconcile):
            call(world.coordinator, statement)
        return
    [result] = call(world.coordinator, statement)
    assert (result.outcome, result.records_left_out) == ("reconciled", None)  # type: ignore[attr-defined]
    assert world.tier(table).error is None
    assert ids(world, table) == [*range(60), *range(150, 160)]


def test_no_call_is_done_while_the_log_has_other_records(world: LakeWorld, table: TableInfo) -> None:
    """The lake counts as many offsets as the log has, but of other records."""
    restored(world, table)
    write(world, table, 100, 50, "after the restore")
    world.restart()
    for request in (TierTable(table.path, caller="ann", wait=False), WaitForTiering(table.path, caller="ann")):
        assert isinstance(first_step(world, request), Progress), "a call that is done has no progress"


def first_step(world: LakeWorld, request: TierTable | WaitForTiering) -> Any:
    """The first progress of a call, or its result if the first look at lake and log is enough. The world's clock stands still."""

    async def first() -> object:
        async with aclosing(world.coordinator.control.perform_with_progress(request)) as steps:
            return await anext(aiter(steps))

    return asyncio.run(first())
