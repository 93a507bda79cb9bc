"""CALL sys.wait_for_tiering over a real cluster and a real lake: it answers when the lake has the rows, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.background import tick
from support.worlds.lake_world import FRESHNESS_S, PRIMARY_KEY_SCHEMA, LakeWorld
from tiering.errors import InvalidArgument, LakeDisabled, LakeUnavailable, UnknownTable
from tiering.model.tables import TablePath
from tiering.procedures.base import Progress
from tiering.procedures.set_table_option import SetTableOption
from tiering.procedures.wait_for_tiering import WaitForTiering, WaitForTieringResult


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path)
    yield world
    world.close()


async def waiting(world: LakeWorld, request: WaitForTiering, then: Callable[[int], None]) -> WaitForTieringResult:
    """Waits to the end; `then` is what happens at each line of progress, in a thread."""
    lines: list[str] = []
    async for step in world.coordinator.control.perform_with_progress(request):
        if isinstance(step, Progress):
            lines.append(step.message)
            await asyncio.to_thread(then, len(lines))
            world.coordinator.table_records.wake_ups.notify()
        else:
            result = step
    return result


def wait(world: LakeWorld, path: TablePath, then: Callable[[int], None] | None = None, **more: Any) -> WaitForTieringResult:
    async def whole() -> WaitForTieringResult:
        async with asyncio.timeout(30):
            return await waiting(
                world, WaitForTiering(path, caller="ann", **({"timeout_ms": 0} if then is None else {}) | more), then or print
            )

    return asyncio.run(whole())


def test_it_waits_for_what_the_log_has_at_the_call_and_for_no_later_row(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 20)
    assert wait(world, table.path).reached is False

    def go_on(line: int) -> None:
        if line == 1:
            world.tier(table)
            world.append(table, 20, 20)

    result = wait(world, table.path, go_on)
    assert (result.reached, result.lake_snapshot_id) == (True, world.view(table).tiered)
    assert result.waited_ms >= FRESHNESS_S * 1_000
    assert wait(world, table.path).reached is False
    assert not [event for event in world.store.events() if event.principal == "ann"], "it asks, and changes nothing"


def test_offsets_are_reached_bucket_by_bucket(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 20)
    world.tier(table)
    [commit] = world.store.commits()
    assert wait(world, table.path, offsets=commit.offsets).reached
    assert wait(world, table.path, offsets={"0": 10}).reached
    assert wait(world, table.path, offsets={"0": 10, "1": 11}).reached is False, "a row that is not written yet"


@pytest.mark.parametrize("offsets", [{}, {"2": 1}, {"-1": 1}, {"a": 1}, {"00": 1}, {"7/0": 1}, {"0": -1}, {"": 1}])
def test_offsets_of_what_the_table_has_not_are_refused(world: LakeWorld, offsets: dict[str, int]) -> None:
    table = world.table("orders")
    with pytest.raises(InvalidArgument) as refused:
        wait(world, table.path, offsets=offsets)
    assert refused.value.hint


def test_rows_written_until_a_moment_are_all_that_counts(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 20)
    world.tier(table)
    world.clock.advance(10)
    between = world.clock.now()
    world.clock.advance(10)
    world.append(table, 20, 20)
    late = world.clock.now()
    world.clock.advance(1)
    assert wait(world, table.path, timestamp=between).reached
    assert wait(world, table.path, timestamp=late).reached is False
    world.tier(table)
    assert wait(world, table.path, timestamp=late).reached
    future = world.clock.now() + timedelta(seconds=5)
    assert wait(world, table.path, timestamp=future).reached is False, "rows may still come"

    def go_on(line: int) -> None:
        world.clock.advance(6)

    assert wait(world, table.path, go_on, timestamp=future).reached


def test_a_primary_key_table_without_a_round_has_no_row_of_any_time_in_the_lake(world: LakeWorld) -> None:
    planes = world.primary_key_table("planes")
    before = world.clock.now()
    world.clock.advance(1)
    assert wait(world, planes.path, timestamp=before).reached, "it has no rows"
    world.storage.upsert(planes.path, pa.table({"id": [1, 2, 3, 4], "text": list("abcd")}, schema=PRIMARY_KEY_SCHEMA), "test", 0)
    world.storage.take_kv_snapshots(planes.path)
    assert wait(world, planes.path, timestamp=before).reached is False
    world.tier(planes)
    assert wait(world, planes.path).reached


def test_a_lake_that_was_rolled_back_has_not_reached_what_is_recorded(world: LakeWorld) -> None:
    table = world.table("orders")
    for number in range(2):
        world.append(table, number * 20, 20)
        world.tier(table)
    assert wait(world, table.path).reached
    loaded = world.iceberg(table)
    loaded.manage_snapshots().rollback_to_snapshot(loaded.metadata.snapshots[0].snapshot_id).commit()
    assert wait(world, table.path).reached is False


def test_a_partition_is_named_by_its_id_and_waited_for_no_more_once_it_is_gone(world: LakeWorld) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.string(), nullable=False)])
    logs = world.table("logs", 1, ("day",), schema)
    world.storage.append(logs.path, pa.table({"id": [1, 2], "day": ["a", "a"]}, schema=schema), "test", 0)
    [partition] = world.storage.partitions(logs)
    bucket = f"{partition.partition_id}/0"
    world.tier(logs)
    assert wait(world, logs.path, offsets={bucket: 2}).reached
    assert wait(world, logs.path, offsets={bucket: 3}).reached is False
    for unknown in ("0", "99/0", f"{partition.partition_id}/1"):
        with pytest.raises(InvalidArgument, match="has no bucket"):
            wait(world, logs.path, offsets={unknown: 1})

    def go_on(line: int) -> None:
        world.storage.drop_partition(logs.path, partition.partition_name)
        world.tier(logs)

    assert wait(world, logs.path, go_on, offsets={bucket: 3}).reached


def test_what_cannot_be_waited_for_is_said(world: LakeWorld) -> None:
    table = world.table("orders")
    with pytest.raises(UnknownTable):
        wait(world, TablePath("sales", "nothing"))
    with pytest.raises(InvalidArgument, match="two goals"):
        wait(world, table.path, timestamp=world.clock.now(), offsets={"0": 1})
    with pytest.raises(InvalidArgument, match="negative"):
        wait(world, table.path, timeout_ms=-1)
    world.append(table, 0, 20)

    def drop(line: int) -> None:
        world.storage.drop_table(table.path)
        tick(world.coordinator)

    with pytest.raises(UnknownTable, match="was dropped"):
        wait(world, table.path, drop)
    other = world.table("other")
    asyncio.run(world.coordinator.control.perform(SetTableOption(other.path, "table.datalake.enabled", "false")))
    with pytest.raises(LakeDisabled):
        wait(world, other.path)


def test_a_lake_that_does_not_answer_is_looked_at_again(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = world.table("orders")
    world.append(table, 0, 20)
    world.tier(table)
    answering = world.lake.view
    monkeypatch.setattr(world.lake, "view", lambda path: (_ for _ in ()).throw(LakeUnavailable("the lake does not answer")))

    def go_on(line: int) -> None:
        monkeypatch.setattr(world.lake, "view", answering)
        world.clock.advance(1)

    assert wait(world, table.path, go_on).reached
