"""Partitions that are dropped and created again under their name, beside Flink, on real lake tables of both formats and layouts.

The rows of the former partition stay in the lake: the cluster does not have them any more. The rows of the living one are there once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.flink.flink_on_iceberg import flink_on, share
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, PAIMON, PAIMON_CLEAN, LakeKind
from support.on_call import next_action
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults
from tiering.cluster.log_writer import LogWriter
from tiering.coordinator.calls.reconcile_lake import reconcile_lake
from tiering.errors import CannotReconcile
from tiering.model.rounds import RoundState
from tiering.model.tables import BucketKey, TableInfo
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult

SCHEMA = pa.schema([pa.field("region", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)])
FORMER = 1_000_000
"""Ids of the former partition's rows begin here."""
SYSTEM_COLUMNS = [ICEBERG, PAIMON]
CLEAN = [ICEBERG_CLEAN, PAIMON_CLEAN]


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path, kind=request.param)
    share(world)
    yield world
    world.close()


def kinds(*of: LakeKind) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("world", of, indirect=True, ids=lambda kind: kind.name)


def visits(world: LakeWorld) -> TableInfo:
    return world.table("visits", 1, ("region",), SCHEMA)


def append(world: LakeWorld, table: TableInfo, first: int, count: int, region: str = "eu") -> None:
    rows = pa.table({"region": [region] * count, "id": range(first, first + count)}, schema=SCHEMA)
    LogWriter(world.storage, table.path, f"test-{region}-{first}").append(rows)


def recreated(world: LakeWorld, table: TableInfo, rows: int) -> None:
    """The partition is dropped, and made anew by its first rows, with ids from 0 on."""
    world.storage.drop_partition(table.path, "eu")
    world.clock.advance(1)
    append(world, table, 0, rows)


def key_table(world: LakeWorld) -> TableInfo:
    return world.primary_key_table("visitors", 1, SCHEMA, ("region", "id"), ("region",), log_ttl="1 s")


def upsert(world: LakeWorld, table: TableInfo, *numbers: int) -> None:
    rows = pa.table({"region": ["eu"] * len(numbers), "id": list(numbers)}, schema=SCHEMA)
    LogWriter(world.storage, table.path, f"test-{numbers[0]}-{len(numbers)}").upsert(rows)


def ids(world: LakeWorld, table: TableInfo) -> Counter[int]:
    return Counter(world.by_hand.rows(table.path)["id"].to_pylist())


def once(*ranges: tuple[int, int]) -> Counter[int]:
    return Counter(number for start, stop in ranges for number in range(start, stop))


def reconcile(world: LakeWorld, table: TableInfo, action: str) -> ReconcileLakeResult:
    return reconcile_lake(world.coordinator.call_parts, ReconcileLake(table.path, action, caller="alice"))


def end_of(world: LakeWorld, table: TableInfo) -> int:
    """Where the living partition goes on."""
    [partition] = world.storage.partitions(table)
    return world.record(table).lake.offsets.get(str(BucketKey(partition.partition_id, 0)), 0)


def healthy(world: LakeWorld, table: TableInfo, former: tuple[int, int], end: int) -> None:
    """Both services go on, and each living row is there once."""
    outcome = world.tier(table)
    assert outcome.error is None, outcome.error
    assert ids(world, table) == once(former, (0, end))
    assert end_of(world, table) == end
    append(world, table, end, 10)
    flink_on(world, table).plan().append().tell()
    outcome = world.tier(table)
    assert outcome.error is None, outcome.error
    assert end_of(world, table) == end + 10
    assert ids(world, table) == once(former, (0, end + 10))
    assert faults(check(world, table)) == []


@kinds(*SYSTEM_COLUMNS, *CLEAN)
def test_rows_of_a_former_partition_are_not_credited_to_the_one_of_its_name(world: LakeWorld) -> None:
    table = visits(world)
    append(world, table, FORMER, 100)
    world.lake.ensure_table(table)
    flink_on(world, table).plan().append().tell()
    recreated(world, table, 150)
    healthy(world, table, (FORMER, FORMER + 100), 150)


@kinds(*SYSTEM_COLUMNS, *CLEAN)
def test_they_are_told_apart_if_we_looked_before(world: LakeWorld) -> None:
    table = visits(world)
    append(world, table, FORMER, 40)
    assert world.tier(table).state is RoundState.SUCCEEDED
    append(world, table, FORMER + 40, 60)
    flink_on(world, table).plan().append().tell()
    recreated(world, table, 150)
    healthy(world, table, (FORMER, FORMER + 100), 150)


@kinds(*SYSTEM_COLUMNS)
def test_commit_times_tell_them_apart_where_the_files_of_offsets_are_gone(world: LakeWorld) -> None:
    table = visits(world)
    append(world, table, FORMER, 100)
    world.lake.ensure_table(table)
    former = flink_on(world, table).plan().append().tell()
    recreated(world, table, 120)
    first = flink_on(world, table).plan().append().tell()
    append(world, table, 120, 30)
    flink_on(world, table).plan().append().tell()
    for gone in (former, first):
        gone.offsets_file.unlink()
    healthy(world, table, (FORMER, FORMER + 100), 150)


@kinds(*SYSTEM_COLUMNS, *CLEAN)
def test_a_round_that_slept_while_the_partition_was_made_anew_credits_nothing(world: LakeWorld) -> None:
    """The round's end is beyond that of the living partition, whose rows we tiered meanwhile."""
    table = visits(world)
    append(world, table, FORMER, 100)
    world.lake.ensure_table(table)
    late = flink_on(world, table).plan()
    recreated(world, table, 50)
    late.append().tell()
    healthy(world, table, (FORMER, FORMER + 100), 50)


@kinds(*SYSTEM_COLUMNS)
@pytest.mark.parametrize("action", ["deduplicate", "retier"])
def test_doubled_rows_go_and_those_of_a_former_partition_stay(world: LakeWorld, action: str) -> None:
    table = visits(world)
    append(world, table, FORMER, 100)
    assert world.tier(table).state is RoundState.SUCCEEDED
    recreated(world, table, 50)
    assert world.tier(table).state is RoundState.SUCCEEDED
    append(world, table, 50, 10)
    late = flink_on(world, table).plan()
    assert world.tier(table).state is RoundState.SUCCEEDED
    late.append().tell()
    outcome = world.tier(table)
    assert outcome.error is not None
    assert outcome.error.error_class == "ForeignTieringOverlap"
    with pytest.raises(CannotReconcile, match="holds 10 rows twice"):
        reconcile(world, table, "accept")
    append(world, table, 60, 100)
    done = reconcile(world, table, action)
    assert (done.records_removed, done.records_left_out) == (10, 0)
    assert end_of(world, table) == 60
    healthy(world, table, (FORMER, FORMER + 100), 160)


@kinds(*SYSTEM_COLUMNS)
def test_rows_of_an_unknown_partition_are_refused_and_kept(world: LakeWorld) -> None:
    """No file of offsets tells, and the log does not reach back to the rows; the cluster's record names the ids."""
    table = world.table("visits", 1, ("region",), SCHEMA, log_ttl="1 s")
    append(world, table, FORMER, 100)
    world.lake.ensure_table(table)
    former = flink_on(world, table).plan().append().tell()
    recreated(world, table, 120)
    flink_on(world, table).plan().append().tell()
    former.offsets_file.unlink()
    world.storage.ask_before_cut(lambda _: True)  # a Fluss cluster cuts what the other service says it tiered
    world.clock.advance(5)
    world.storage.maintenance.run()
    append(world, table, 120, 30)
    outcome = world.tier(table)
    assert outcome.error is not None
    assert outcome.error.error_class == "ForeignTieringUnproved"
    assert "nothing tells whether this partition or a former one of its name wrote them" in outcome.error.message
    for action in ("accept", "retier", "deduplicate"):
        with pytest.raises(CannotReconcile, match="former one of its name"):
            reconcile(world, table, action)
    done = reconcile(world, table, "adopt")
    assert list(done.offsets.values()) == [120]
    healthy(world, table, (FORMER, FORMER + 100), 150)


@kinds(*SYSTEM_COLUMNS)
def test_a_gap_before_the_first_rows_of_a_partition_is_filled(world: LakeWorld) -> None:
    """The log has the rows from the first offset on, whatever the lake lost of them."""
    table = visits(world)
    append(world, table, 0, 5, "us")
    world.lake.ensure_table(table)
    flink_on(world, table).plan().append().tell()
    former_head = world.view(table).head
    assert former_head is not None
    append(world, table, 0, 50)
    flink_on(world, table).plan().append().tell()
    append(world, table, 50, 50)
    late = flink_on(world, table).plan()
    world.by_hand.roll_back(table.path, former_head)
    late.append().tell()
    outcome = world.tier(table)
    assert outcome.error is not None
    assert outcome.error.error_class == "ForeignTieringGap"
    assert reconcile(world, table, "retier").records_left_out == 0
    outcome = world.tier(table)
    assert outcome.error is None, outcome.error
    assert ids(world, table) == once((0, 5), (0, 100))


@kinds(*CLEAN)
@pytest.mark.parametrize("is_recreated", [False, True], ids=["dropped", "recreated"])
def test_no_way_back_is_named_that_would_lose_rows_of_a_dropped_partition(world: LakeWorld, is_recreated: bool) -> None:
    """Flink doubles rows of one partition in the same round that has the last rows of another one."""
    table = visits(world)
    append(world, table, FORMER, 40)
    append(world, table, 0, 10, "us")
    assert world.tier(table).state is RoundState.SUCCEEDED
    append(world, table, FORMER + 40, 60)
    append(world, table, 10, 10, "us")
    first, second = flink_on(world, table).plan(), flink_on(world, table).plan()
    first.append().tell()
    second.append().tell()
    if is_recreated:
        recreated(world, table, 20)
    else:
        world.storage.drop_partition(table.path, "eu")
    outcome = world.tier(table)
    assert outcome.error is not None
    assert outcome.error.error_class == "ForeignTieringUnproved"
    assert "Set the main branch" not in outcome.error.hint
    assert "Rename the lake table" in outcome.error.hint
    assert "lake_snapshot_id" not in outcome.error.ids


@kinds(*SYSTEM_COLUMNS, *CLEAN)
def test_keys_of_a_former_partition_stay_where_a_bucket_would_begin_anew(world: LakeWorld) -> None:
    """Flink sets keys back, and the log is cut: only a KV snapshot in the place of all rows would mend the bucket."""
    table = key_table(world)
    upsert(world, table, *range(FORMER, FORMER + 40))
    assert world.tier(table).state is RoundState.SUCCEEDED
    world.storage.drop_partition(table.path, "eu")
    world.clock.advance(1)
    upsert(world, table, *range(20))
    assert world.tier(table).state is RoundState.SUCCEEDED
    upsert(world, table, *range(10, 30))
    stale = flink_on(world, table).plan()
    upsert(world, table, *range(15, 40))
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert ids(world, table) == once((FORMER, FORMER + 40), (0, 40))
    stale.append().tell()
    world.storage.take_kv_snapshots(table.path)
    world.clock.advance(5)
    world.storage.maintenance.run()
    outcome = world.tier(table)
    assert outcome.error is not None
    assert not outcome.error.retryable
    head = world.view(table).head
    with pytest.raises(CannotReconcile, match="only copy of those of a dropped partition") as refused:
        reconcile(world, table, "retier")
    assert refused.value.hint.startswith("Rename the lake table")
    assert "reconcile_lake" not in (next_action(world.coordinator, table) or "")
    assert world.view(table).head == head
    world.by_hand.rename(table.path, "visitors_former")
    reconcile(world, table, "retier")
    assert world.tier(table).error is None
    assert ids(world, table) == once((0, 40))
    assert faults(check(world, table)) == []
