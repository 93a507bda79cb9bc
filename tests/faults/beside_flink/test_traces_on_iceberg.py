"""The stories beside Flink's tiering on real Iceberg tables, with files as it writes them (docs/fluss-facts.md, "Lake layout")."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from support.flink.flink_on_iceberg import FlinkOnIceberg, share
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from support.worlds.validated import check, faults
from tiering.cluster.log_writer import LogWriter
from tiering.coordinator.calls.reconcile_lake import reconcile_lake
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path)
    share(world)
    yield world
    world.close()


def tiered(world: LakeWorld) -> TableInfo:
    """A log table with 25 rows in each of two buckets, tiered by us."""
    table = world.table("orders")
    world.append(table, 0, 50)
    assert world.tier(table).state is RoundState.SUCCEEDED
    return table


def reconcile(world: LakeWorld, table: TableInfo, action: str) -> ReconcileLakeResult:
    return reconcile_lake(world.coordinator.call_parts, ReconcileLake(table.path, action, caller="alice"))


def refused(world: LakeWorld, table: TableInfo) -> str:
    outcome = world.tier(table)
    assert outcome.error is not None
    assert not outcome.error.retryable
    return outcome.error.error_class


def assert_quiet(world: LakeWorld, table: TableInfo) -> None:
    """Every offset once, Fluss names the newest tiering snapshot; another round of each changes nothing of that."""
    for _ in range(2):
        outcome = world.tier(table)
        assert outcome.error is None, outcome.error
        world.assert_exact(table)
        assert faults(check(world, table)) == []
    FlinkOnIceberg(world, table).plan().append().tell()
    assert world.tier(table).error is None
    world.assert_exact(table)


def test_1_rows_of_a_round_that_slept_are_deduplicated(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 50, 50)
    late = FlinkOnIceberg(world, table).plan()
    world.tier(table)
    late.append().tell()
    assert refused(world, table) == "ForeignTieringOverlap"
    done = reconcile(world, table, "deduplicate")
    assert (done.outcome, done.records_removed) == ("reconciled", 50)
    world.assert_exact(table)
    assert_quiet(world, table)


def test_2_two_incarnations(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 50, 50)
    first, second = FlinkOnIceberg(world, table).plan(), FlinkOnIceberg(world, table).plan()
    first.append().tell()
    second.append().tell()
    assert refused(world, table) == "ForeignTieringOverlap"
    reconcile(world, table, "deduplicate")
    assert_quiet(world, table)


def test_3_rows_behind_a_roll_back(world: LakeWorld) -> None:
    table = tiered(world)
    ours = world.view(table).head
    world.append(table, 50, 50)
    FlinkOnIceberg(world, table).plan().append().tell()
    world.append(table, 100, 20)
    late = FlinkOnIceberg(world, table).plan()
    assert ours is not None
    world.iceberg(table).manage_snapshots().set_current_snapshot(ours).commit()
    late.append().tell()
    assert refused(world, table) == "ForeignTieringGap"
    done = reconcile(world, table, "retier")
    assert (done.records_removed, dict(done.offsets)) == (20, {"0": 25, "1": 25})
    assert_quiet(world, table)


def test_6_copies_in_one_file(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 50, 50)
    late = FlinkOnIceberg(world, table).plan()
    world.tier(table)
    late.append().tell()
    loaded: Table = world.iceberg(table)
    loaded.overwrite(loaded.scan().to_arrow().cast(table.lake_schema()))
    assert refused(world, table) == "ForeignTieringOverlap"
    reconcile(world, table, "deduplicate")
    assert_quiet(world, table)


def test_11_healthy_rounds_are_adopted(world: LakeWorld) -> None:
    table = tiered(world)
    for start in (50, 80):
        world.append(table, start, 30)
        FlinkOnIceberg(world, table).plan().append().tell()
    assert world.tier(table).state is RoundState.EMPTY
    assert world.record(table).lake.offsets == {"0": 55, "1": 55}
    assert faults(check(world, table)) == []
    assert_quiet(world, table)


def test_11_one_that_died_before_it_told_is_told_for(world: LakeWorld) -> None:
    table = tiered(world)
    world.append(table, 50, 30)
    FlinkOnIceberg(world, table).plan().append()
    assert world.tier(table).state is RoundState.SUCCEEDED
    recorded = world.storage.lake_snapshot(table)
    assert recorded is not None
    assert recorded.lake_snapshot_id == world.view(table).head
    assert_quiet(world, table)


def test_a_table_that_only_the_other_tiered_is_taken_over(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 50)
    world.lake.ensure_table(table)
    FlinkOnIceberg(world, table).plan().append().tell()
    assert_quiet(world, table)


def keyed_rows(ids: range | list[int], text: str) -> pa.Table:
    return pa.table({"id": list(ids), "text": [f"{text} {number}" for number in ids]}, schema=PRIMARY_KEY_SCHEMA)


def test_8_equality_deletes_of_a_stale_round_are_replayed(world: LakeWorld) -> None:
    table = world.primary_key_table("planes", buckets=1)
    writer = LogWriter(world.storage, table.path, "writer")
    writer.upsert(keyed_rows(range(50), "first"))
    world.tier(table)
    writer.upsert(keyed_rows(range(5), "second"))
    writer.upsert(keyed_rows(range(100, 110), "new"))
    stale = FlinkOnIceberg(world, table).plan()
    writer.upsert(keyed_rows(range(5), "third"))
    writer.delete(pa.table({"id": list(range(10, 20))}, schema=pa.schema([PRIMARY_KEY_SCHEMA.field("id")])))
    world.tier(table)
    assert faults(check(world, table)) == []
    stale.append().tell()
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert faults(check(world, table)) == []
    assert "BUCKETS_REPLAYED" in {event.event_type for event in world.store.events()}
    FlinkOnIceberg(world, table).plan().append().tell()
    writer.upsert(keyed_rows([3, 7, 200], "fourth"))
    FlinkOnIceberg(world, table).plan().append().tell()
    assert world.tier(table).error is None
    writer.upsert(keyed_rows([3], "fifth"))
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert faults(check(world, table)) == []
