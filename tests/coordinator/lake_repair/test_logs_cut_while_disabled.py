"""A lake that is disabled, a log that is cut meanwhile, and the lake enabled again: the gap is named, and each choice ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pyarrow as pa
import pytest

from support.background import tick
from support.lake_kinds.kinds import ICEBERG, PAIMON, in_lakes
from support.on_call import follow, in_lake, next_action
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults
from tiering.errors import CannotReconcile, LogTruncated
from tiering.lake.marker import Marker
from tiering.lake.table_options import ENABLED
from tiering.model.buckets import BucketStatus
from tiering.model.rounds import RoundState
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult

SECOND = "1 s"
"""The records of a log live that long, unless they have to be tiered."""
RETIER = "CALL fluss.sys.reconcile_lake('sales.planes', 'retier')"
REGIONS = pa.schema(
    [pa.field("region", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())]
)
pytestmark = pytest.mark.in_turn("world")


def set_lake(world: LakeWorld, table: TableInfo, *, enabled: bool) -> None:
    world.storage.alter_table(table.path, {ENABLED.name: str(enabled).lower()})
    tick(world.coordinator)


def log_is_cut(world: LakeWorld) -> None:
    world.clock.advance(10)
    world.storage.maintenance.run()


def upsert(world: LakeWorld, table: TableInfo, ids: Sequence[int], text: str, region: str | None = None) -> None:
    rows = [{"id": number, "text": text, **({} if region is None else {"region": region})} for number in ids]
    world.storage.upsert(table.path, pa.Table.from_pylist(rows, schema=table.schema), f"upsert-{text}-{region}-{ids[0]}", 0)


def delete(world: LakeWorld, table: TableInfo, ids: Sequence[int]) -> None:
    world.storage.delete(table.path, pa.Table.from_pydict({"id": ids}, schema=pa.schema([table.schema.field("id")])), "delete", 0)


def reconcile(world: LakeWorld, table: TableInfo, action: str, *, dry_run: bool = False) -> ReconcileLakeResult:
    return asyncio.run(world.coordinator.control.perform(ReconcileLake(table.path, action, caller="ann", dry_run=dry_run)))


def tiered(world: LakeWorld, table: TableInfo) -> None:
    assert world.tier(table).state is RoundState.SUCCEEDED


def stopped(world: LakeWorld, table: TableInfo) -> dict[int, tuple[object, ...]]:
    """The rows of `sys.tiering_buckets` that have an error, by bucket."""
    rows: Sequence[BucketStatus] = [row for row in world.coordinator.view().buckets() if row.table_name == table.path.table_name]
    return {row.bucket_id: (row.error_class, row.stopped_at_offset, row.error_message) for row in rows if row.error_class is not None}


def marker(world: LakeWorld, table: TableInfo) -> Marker:
    newest = world.view(table).marker
    assert newest is not None
    return newest


def orders_with_a_gap(world: LakeWorld) -> TableInfo:
    """Each of two buckets has 10 tiered records, 10 that are lost, and some more in the log."""
    table = world.table("orders", log_ttl=SECOND)
    world.append(table, 0, 20)
    tiered(world, table)
    set_lake(world, table, enabled=False)
    world.append(table, 20, 20)
    log_is_cut(world)
    world.append(table, 40, 8)
    set_lake(world, table, enabled=True)
    outcome = world.tier(table)
    assert isinstance(outcome.error, LogTruncated)
    return table


def test_the_gap_of_each_bucket_is_named(world: LakeWorld) -> None:
    table = orders_with_a_gap(world)
    error = world.record(table).error
    assert error is not None
    assert "20 records are in neither: bucket 0: records 10 to 19; bucket 1: records 10 to 19" in error.message
    newest = world.view(table).snapshots[world.view(table).tiered or 0]
    assert error.hint.startswith(f"The table was tiered last at {newest.committed_at:%Y-%m-%d %H:%M:%S} UTC.")
    assert "CALL sys.reconcile_lake('sales.orders', 'accept')" in error.hint
    world.coordinator.observer.observe_all()
    gap = ("LogTruncated", 10, "records 10 to 19 are in neither (10 records)")
    assert stopped(world, table) == {0: gap, 1: gap}
    assert next_action(world.coordinator, table) is None, "the statement that helps leaves records out: a person has to choose"


def test_accept_continues_behind_the_gap_which_is_remembered(world: LakeWorld) -> None:
    table = orders_with_a_gap(world)
    assert reconcile(world, table, "accept", dry_run=True).records_left_out == 20
    assert reconcile(world, table, "accept").records_left_out == 20
    for start in (48, 56):
        tiered(world, table)
        world.append(table, start, 8)
    tiered(world, table)
    left_out = {BucketKey(None, number): ((10, 20),) for number in (0, 1)}
    assert marker(world, table).left_out == left_out
    assert sorted(world.by_hand.rows(table.path)["id"].to_pylist()) == [*range(20), *range(40, 64)]
    results = check(world, table)
    assert not faults(results)
    remembered = [(result.scope, result.actual, result.details) for result in results if result.check == "left_out"]
    text = "bucket {0}: reconcile_lake left out the records 10 to 19, which neither log nor lake had any more"
    assert remembered == [(str(number), "10", text.format(number)) for number in (0, 1)]
    [event] = [row for row in world.store.events() if row.event_type == "RECONCILE_STARTED"]
    assert event.details["left_out"] == {"0": "10-20", "1": "10-20"}


@in_lakes(ICEBERG, PAIMON)
def test_rows_that_are_lost_later_are_no_part_of_the_gap(world: LakeWorld) -> None:
    """Only what `accept` left out is excused."""
    table = orders_with_a_gap(world)
    reconcile(world, table, "accept")
    tiered(world, table)
    world.by_hand.delete(table.path, "id", 40)
    assert [name for name, *_ in faults(check(world, table))]


def test_retier_after_a_later_rollback_knows_the_gap(world: LakeWorld) -> None:
    table = orders_with_a_gap(world)
    reconcile(world, table, "accept")
    tiered(world, table)
    world.append(table, 48, 8)
    tiered(world, table)
    former = world.by_hand.former_head(table.path)
    assert former is not None
    world.by_hand.roll_back(table.path, former)
    assert world.tier(table).error is not None
    follow(world.coordinator, table, in_lake(world))
    tiered(world, table)
    assert sorted(world.by_hand.rows(table.path)["id"].to_pylist()) == [*range(20), *range(40, 56)]
    assert not faults(check(world, table))


def planes_with_a_gap(world: LakeWorld) -> TableInfo:
    """Keys that are changed and deleted while the lake is disabled; then their log is cut up to a KV snapshot."""
    table = world.primary_key_table("planes", log_ttl=SECOND)
    upsert(world, table, range(20), "first")
    tiered(world, table)
    set_lake(world, table, enabled=False)
    upsert(world, table, range(10, 30), "second")
    delete(world, table, range(5))
    world.storage.take_kv_snapshots(table.path)
    log_is_cut(world)
    upsert(world, table, range(28, 32), "third")
    set_lake(world, table, enabled=True)
    assert isinstance(world.tier(table).error, LogTruncated)
    return table


def test_a_primary_key_table_begins_again_with_its_kv_snapshots(world: LakeWorld) -> None:
    table = planes_with_a_gap(world)
    before = world.by_hand.rows(table.path).num_rows
    assert next_action(world.coordinator, table) == RETIER
    done = reconcile(world, table, "retier")
    assert (done.records_left_out, dict(done.offsets)) == (0, {})
    assert world.by_hand.rows(table.path).num_rows == before, "readers see the former rows until the next round replaces them"
    assert world.begin(table).end().state is RoundState.SUCCEEDED
    expected = dict.fromkeys(range(5, 10), "first") | dict.fromkeys(range(10, 28), "second") | dict.fromkeys(range(28, 32), "third")
    rows = world.by_hand.rows(table.path).to_pylist()
    assert {row["id"]: row["text"] for row in rows} == expected
    assert len(rows) == len(expected)
    results = check(world, table)
    assert not faults(results), results
    assert next_action(world.coordinator, table) is None


def test_a_bucket_without_a_kv_snapshot_is_not_begun_again(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = planes_with_a_gap(world)
    monkeypatch.setattr(world.storage, "kv_snapshots", lambda table: {})
    assert next_action(world.coordinator, table) is None
    with pytest.raises(CannotReconcile, match="keys that were deleted before would stay in the lake"):
        reconcile(world, table, "retier")


def north_with_a_gap(world: LakeWorld) -> TableInfo:
    """A partition `north`, which is made here unless it is there; then its log is cut up to a KV snapshot."""
    table = world.storage.table(TablePath("sales", "planes"))
    upsert(world, table, range(10), "first", "north")
    tiered(world, table)
    set_lake(world, table, enabled=False)
    upsert(world, table, range(3, 12), "second", "north")
    world.storage.take_kv_snapshots(table.path)
    log_is_cut(world)
    set_lake(world, table, enabled=True)
    error = world.tier(table).error
    assert isinstance(error, LogTruncated)
    assert "(partition 'north')" in error.message
    return table


def test_buckets_of_a_partition_begin_again(world: LakeWorld) -> None:
    world.primary_key_table("planes", 2, REGIONS, ("region", "id"), ("region",), log_ttl=SECOND)
    table = north_with_a_gap(world)
    assert follow(world.coordinator, table, in_lake(world)) == [RETIER]
    tiered(world, table)
    rows = world.by_hand.rows(table.path).to_pylist()
    assert {row["id"]: row["text"] for row in rows} == dict.fromkeys(range(3), "first") | dict.fromkeys(range(3, 12), "second")
    assert len(rows) == 12
    assert not faults(check(world, table))


def test_rows_that_may_be_a_former_partitions_are_kept(world: LakeWorld) -> None:
    table = world.primary_key_table("planes", 2, REGIONS, ("region", "id"), ("region",), log_ttl=SECOND)
    upsert(world, table, range(20, 30), "former", "north")
    tiered(world, table)
    world.storage.drop_partition(table.path, "north")
    north_with_a_gap(world)
    before = world.by_hand.rows(table.path).num_rows
    with pytest.raises(CannotReconcile, match="may be the only copy of those of a dropped partition"):
        reconcile(world, table, "retier")
    assert next_action(world.coordinator, table) is None, "a new lake table would lack the former partition's rows: a person has to choose"
    assert world.by_hand.rows(table.path).num_rows == before
