"""How much of log and KV snapshots a round has read, as `sys.tiering_rounds` shows it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from support.worlds.lake_world import LakeWorld
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo


def bytes_of(folder: Path, pattern: str) -> int:
    return sum(file.stat().st_size for file in folder.rglob(pattern))


def bytes_read(world: LakeWorld, table: TableInfo) -> int:
    """Returns the bytes that the table's next round reads."""
    assert world.tier(table).state is RoundState.SUCCEEDED
    stats = max((row for row in world.store.rounds() if row.table_id == table.table_id), key=lambda row: row.pending_time).stats
    assert stats is not None
    return stats.bytes_read


def test_a_round_counts_the_segments_that_it_read(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    table = world.table("orders")
    world.append(table, 0, 20)
    before = bytes_of(world.storage.root, "*.arrow")
    assert bytes_read(world, table) == before > 0
    world.append(table, 20, 20)
    assert bytes_read(world, table) == bytes_of(world.storage.root, "*.arrow") - before
    world.close()


def test_a_round_that_begins_with_kv_snapshots_counts_their_files(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    table = world.primary_key_table("planes")
    rows = pa.table({"id": range(20), "text": ["row"] * 20}, schema=table.schema)
    world.storage.upsert(table.path, rows, "test", 0)
    world.storage.take_kv_snapshots(table.path)
    assert bytes_read(world, table) == bytes_of(world.storage.root, "*.parquet") > 0
    world.close()
