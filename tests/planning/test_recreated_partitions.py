"""A partition that was dropped and recreated under its name: the rows of the dropped partition stay in the lake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.background import tick
from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.string(), nullable=False), pa.field("note", pa.string())]
)


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LakeWorld]:
    kind: LakeKind = request.param
    lake_world = LakeWorld(tmp_path, kind=kind)
    yield lake_world
    lake_world.close()


def visits(ids: Iterable[int], note: str) -> pa.Table:
    numbers = list(ids)
    return pa.table({"id": numbers, "day": ["d0"] * len(numbers), "note": [note] * len(numbers)}, schema=SCHEMA)


def rows(world: LakeWorld, table: TableInfo) -> dict[int, str]:
    read = world.by_hand.rows(table.path)
    assert len(read) == len(set(read["id"].to_pylist())), "a key has two rows"
    return dict(zip(read["id"].to_pylist(), read["note"].to_pylist(), strict=True))


def tier(world: LakeWorld, table: TableInfo) -> None:
    outcome = world.tier(table)
    assert outcome.state is RoundState.SUCCEEDED, outcome.error


def cut_log(world: LakeWorld, table: TableInfo) -> None:
    """While the lake is switched off, retention removes what is not tiered yet."""
    world.storage.alter_table(table.path, {"table.datalake.enabled": "false"})
    world.clock.advance(7_200)
    world.storage.maintenance.run()
    world.storage.alter_table(table.path, {"table.datalake.enabled": "true"})
    tick(world.coordinator)
    assert all(bucket.log_start == bucket.log_end > 0 for bucket in world.storage.offsets(table).values())


def archived(world: LakeWorld, buckets: int = 1) -> TableInfo:
    """A table whose only partition was dropped; its ten rows stay in the lake."""
    table = world.primary_key_table("visits", buckets, SCHEMA, ("id", "day"), ("day",), log_ttl="1 h", kv_snapshot_interval="365 d")
    world.storage.upsert(table.path, visits(range(10), "archived"), "w", 0)
    tier(world, table)
    world.storage.drop_partition(table.path, "d0")
    world.clock.advance(5)
    return table


@pytest.mark.parametrize("buckets", [1, 2])
def test_a_kv_snapshot_before_the_first_round_keeps_the_rows_of_the_dropped_partition(world: LakeWorld, buckets: int) -> None:
    table = archived(world, buckets)
    world.storage.upsert(table.path, visits([3, 100], "late"), "w", 1)
    world.storage.take_kv_snapshots(table.path)
    tier(world, table)
    expected = dict.fromkeys(range(10), "archived") | {3: "late", 100: "late"}
    assert rows(world, table) == expected
    assert not faults(check(world, table))
    world.storage.upsert(table.path, visits([4, 101], "later"), "w", 2)
    tier(world, table)
    assert rows(world, table) == expected | {4: "later", 101: "later"}
    assert not faults(check(world, table))


def test_a_key_that_came_and_went_before_the_kv_snapshot_leaves_the_row_of_the_dropped_partition(world: LakeWorld) -> None:
    table = archived(world)
    world.storage.upsert(table.path, visits([3, 100, 101], "late"), "w", 1)
    world.storage.delete(table.path, visits([3, 101], "").drop_columns(["note"]), "w", 2)
    world.storage.take_kv_snapshots(table.path)
    tier(world, table)
    assert rows(world, table) == dict.fromkeys(range(10), "archived") | {100: "late"}
    assert not faults(check(world, table))


def test_a_kv_snapshot_behind_a_cut_log_keeps_the_rows_of_the_dropped_partition(world: LakeWorld) -> None:
    table = archived(world)
    world.storage.upsert(table.path, visits([3, 100], "late"), "w", 1)
    world.storage.take_kv_snapshots(table.path)
    cut_log(world, table)
    world.storage.upsert(table.path, visits([101], "later"), "w", 2)
    tier(world, table)
    assert rows(world, table) == dict.fromkeys(range(10), "archived") | {3: "late", 100: "late", 101: "later"}
    assert not faults(check(world, table))


def test_many_changes_after_the_kv_snapshot_keep_the_rows_of_the_dropped_partition(world: LakeWorld) -> None:
    """Enough of them that the bucket's own files are rewritten."""
    table = archived(world)
    world.storage.upsert(table.path, visits(range(100, 120), "late"), "w", 1)
    world.storage.take_kv_snapshots(table.path)
    for sequence in range(2, 6):
        tier(world, table)
        world.storage.upsert(table.path, visits(range(100, 120), f"late {sequence}"), "w", sequence)
    tier(world, table)
    assert rows(world, table) == dict.fromkeys(range(10), "archived") | dict.fromkeys(range(100, 120), "late 5")
    assert not faults(check(world, table))


def test_a_user_compacts_the_table_between_the_dropped_and_the_recreated_partition(world: LakeWorld) -> None:
    table = archived(world)
    world.by_hand.rewrite(table.path)
    world.storage.upsert(table.path, visits([3, 100, 101], "late"), "w", 1)
    world.storage.delete(table.path, visits([101, 3], "").drop_columns(["note"]), "w", 2)
    world.storage.take_kv_snapshots(table.path)
    tier(world, table)
    assert rows(world, table) == dict.fromkeys(range(10), "archived") | {100: "late"}
    assert not faults(check(world, table))
