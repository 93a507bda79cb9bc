"""CALL sys.explain_tiering over a real lake and cluster: what a round would read, all that keeps one away, and no effect of asking."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.background import tick
from support.clusters.older_version import TWICE, older_write
from support.operators import pause
from support.worlds.coordinator_world import World
from support.worlds.lake_world import FRESHNESS_S, PRIMARY_KEY_SCHEMA, LakeWorld
from tiering.coordinator.server.coordinator import Coordinator
from tiering.errors import UnknownTable
from tiering.model.tables import TableInfo, TablePath
from tiering.procedures.explain_tiering import ExplainTiering, Explanation
from tiering.procedures.fence_tierer import FenceTierer
from tiering.procedures.set_table_option import SetTableOption
from tiering.round.steps import actions as act


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path)
    yield world
    world.close()


def explain(coordinator: Coordinator, path: TablePath) -> tuple[Explanation, ...]:
    return asyncio.run(coordinator.control.perform(ExplainTiering(path, caller="ann")))


def of_table(coordinator: Coordinator, table: TableInfo) -> list[tuple[str, str]]:
    """Decision and reason of the lines about the table as a whole."""
    return [(line.decision.value, line.reason) for line in explain(coordinator, table.path) if line.bucket_id is None]


def of_buckets(coordinator: Coordinator, table: TableInfo) -> list[tuple[object, ...]]:
    """Split type, bucket, first and last offset, decision of each line about a bucket."""
    return [
        (line.split_type, line.bucket_id, line.starting_offset, line.stopping_offset, line.decision.value)
        for line in explain(coordinator, table.path)
        if line.bucket_id is not None
    ]


def holds(lines: list[tuple[str, str]], decision: str, *words: str) -> bool:
    return any(line[0] == decision and all(word in line[1] for word in words) for line in lines)


def test_it_shows_the_splits_that_the_next_round_reads_and_changes_nothing(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.planning.plan_splits.UNSIZED_SPLIT_RECORDS", 4)
    monkeypatch.setattr("tiering.planning.plan_splits.SPLIT_BYTES", 64)
    table = world.table("orders", buckets=3)
    world.append(table, 0, 20)
    before = (world.store.load(), world.store.events(), world.store.rounds(), world.storage.leases())
    lines = explain(world.coordinator, table.path)
    assert (world.store.load(), world.store.events(), world.store.rounds(), world.storage.leases()) == before
    assert world.lake.view(table.path) is None
    about = of_table(world.coordinator, table)
    assert holds(about, "wait", "not due for 30 s", "its freshness is 1 min")
    assert holds(about, "wait", "no tierer is connected")
    assert holds(about, "note", "there is no lake table yet")
    assert holds(about, "note", "a round would read 20 records of the log in", "in the process of its tierer")
    reads = [line for line in lines if line.decision == "read"]
    assert len(reads) > 2
    assert sum(line.records or 0 for line in reads) == 20
    assert all("never tiered: 10 records wait, from the log's start; piece " in line.reason for line in reads)
    assert [line.reason for line in lines if line.decision == "skip"] == ["never tiered, and its log holds no record"]
    world.due()
    stepped = world.begin(table).advance_to(act.RunSplits)
    action = stepped.runner.next_action
    assert isinstance(action, act.RunSplits)
    planned = [(split.bucket.bucket_id, split.starting_offset, split.stopping_offset) for split in action.plan.splits]
    assert [(line.bucket_id, line.starting_offset, line.stopping_offset) for line in reads] == planned
    assert holds(of_table(world.coordinator, table), "running", "runs on the tierer tierer-1")


def test_later_it_tells_what_waits_and_which_buckets_have_nothing(world: LakeWorld) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string(), nullable=False)])
    table = world.table("orders", 1, ("text",), schema)
    writer_rows = pa.table({"id": [1, 2], "text": ["a", "b"]}, schema=schema)
    world.storage.append(table.path, writer_rows, "test", 0)
    world.tier(table)
    world.storage.append(table.path, writer_rows.slice(0, 1), "test", 1)
    world.beat(request_table=False)
    world.clock.advance(FRESHNESS_S + 1)
    world.beat(request_table=False)
    tick(world.coordinator)
    lines = explain(world.coordinator, table.path)
    assert lines[0].decision == "begin"
    [read] = [line for line in lines if line.decision == "read"]
    assert (read.partition_name, read.records) == ("a", 1)
    assert "1 record waits: the lake has those below offset" in read.reason
    assert any(line.partition_name == "b" and "nothing new" in line.reason for line in lines if line.decision == "skip")
    world.storage.drop_partition(table.path, "b")
    assert any("is gone: its rows stay in the lake" in line.reason for line in explain(world.coordinator, table.path))


def test_a_bucket_that_was_never_tiered_begins_with_its_kv_snapshot(world: LakeWorld) -> None:
    table = world.primary_key_table("planes", buckets=1)
    rows = pa.table({"id": range(5), "text": [str(number) for number in range(5)]}, schema=PRIMARY_KEY_SCHEMA)
    world.storage.upsert(table.path, rows, "test", 0)
    [snapshot] = world.storage.take_kv_snapshots(table.path).values()
    world.storage.upsert(table.path, rows.slice(0, 1), "test", 1)
    assert of_buckets(world.coordinator, table) == [
        ("SNAPSHOT", 0, None, snapshot.log_offset, "read"),
        ("LOG", 0, snapshot.log_offset, snapshot.log_offset + 2, "read"),
    ]
    assert f"begins with KV snapshot {snapshot.snapshot_id} at offset 5" in str(explain(world.coordinator, table.path))
    world.tier(table)
    assert of_buckets(world.coordinator, table) == [(None, 0, None, None, "skip")]
    assert holds(of_table(world.coordinator, table), "note", "nothing is new: a round would end as EMPTY")


def test_all_that_keeps_a_table_away_is_told_at_once(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 20)
    world.tier(table)
    world.append(table, 20, 20)
    world.tier(table)
    loaded = world.iceberg(table)
    loaded.manage_snapshots().rollback_to_snapshot(loaded.metadata.snapshots[0].snapshot_id).commit()
    world.append(table, 40, 20)
    world.tier(table)
    pause(world.coordinator, table.path, "bob")
    asyncio.run(world.coordinator.control.perform(FenceTierer("tierer-1", "hangs", caller="bob")))
    lines = of_table(world.coordinator, table)
    assert holds(lines, "wait", "paused by bob", "CALL sys.resume_tiering('sales.orders')")
    assert holds(lines, "refuse", "failed permanently", "LakeRolledBack")
    assert holds(lines, "wait", "no tierer is connected; 1 that run are fenced")
    assert holds(lines, "refuse", "a round would fail: LakeRolledBack", "reconcile_lake")


def test_what_the_log_and_the_columns_refuse_is_told(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 20)
    world.tier(table)
    with world.iceberg(table).update_schema() as update:
        update.add_column("mine", world.iceberg(table).schema().find_field("id").field_type)
    assert holds(of_table(world.coordinator, table), "refuse", "SchemaDrift", "'mine'")
    stuck = pa.schema([pa.field("id", pa.int64(), nullable=False), ("tags", pa.map_(pa.string(), pa.int32()))])
    other = world.primary_key_table("stuck", 1, stuck)
    older_write(world.storage, other.path, pa.Table.from_pylist([{"id": 1, "tags": TWICE}], schema=stuck), 0)
    [line] = [line for line in explain(world.coordinator, other.path) if line.bucket_id is not None]
    assert (line.decision, line.starting_offset) == ("refuse", 0)
    assert "BucketStopped" in line.reason
    assert "skip_record" in line.reason


def test_a_lake_that_is_off_and_a_table_that_is_not_there(world: LakeWorld) -> None:
    table = world.table("orders")
    asyncio.run(world.coordinator.control.perform(SetTableOption(table.path, "table.datalake.enabled", "false")))
    [line] = explain(world.coordinator, table.path)
    assert (line.decision, "table.datalake.enabled" in line.reason) == ("refuse", True)
    with pytest.raises(UnknownTable):
        explain(world.coordinator, TablePath("sales", "nowhere"))


def test_back_off_slots_and_the_queue_are_told(world: LakeWorld) -> None:
    first, second = world.table("first"), world.table("second")
    for table in (first, second):
        world.append(table, 0, 20)
    world.due()
    assert holds(of_table(world.coordinator, second), "wait", "queued behind 1 table that a CALL waits for")
    world.begin(first)
    assert holds(of_table(world.coordinator, second), "wait", "no tierer has a free slot: 1 round in 1 slot")
    world.clock.advance(121)
    tick(world.coordinator)
    lines = of_table(world.coordinator, first)
    assert holds(lines, "wait", "in back-off after 1 failures", "TiererLost")


def test_whose_turn_it_is_where_the_cluster_assigns(shared: World) -> None:
    lines = of_table(shared.coordinator, shared.table)
    assert holds(lines, "wait", "another tiering service holds the table")
    assert not holds(lines, "wait", "not due")
