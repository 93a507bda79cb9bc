"""A new lake table in place of one with rows of dropped partitions would lack them: no statement that is run as it stands is named then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table.update import RemoveSnapshotRefUpdate

from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, LAKE_KINDS
from support.on_call import call, follow, in_lake, next_action
from support.worlds.lake_world import LakeWorld
from tiering import errors
from tiering.lake.maintenance import PartitionRows
from tiering.model.tables import TableInfo

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.date32(), nullable=False)])
D0, D1 = 0, 40


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path, kind=getattr(request, "param", ICEBERG_CLEAN))
    yield lake_world
    lake_world.close()


def visits(first: int, count: int, day: int) -> pa.Table:
    return pa.table({"id": range(first, first + count), "day": pa.array([day] * count, pa.date32())}, schema=SCHEMA)


def tiered(world: LakeWorld, *, primary_key: bool = False) -> TableInfo:
    """Ten rows of one day and five of another."""
    if primary_key:
        table, write = world.primary_key_table("visits", 1, SCHEMA, ("id", "day"), ("day",)), world.storage.upsert
    else:
        table, write = world.table("visits", 1, ("day",), SCHEMA), world.storage.append
    write(table.path, visits(0, 10, D0), "w", 0)
    write(table.path, visits(100, 5, D1), "w", 1)
    assert world.tier(table).error is None
    return table


def fill_note(world: LakeWorld, table: TableInfo) -> None:
    """A user adds a column to the lake table and fills it: dropping it would lose the values."""
    world.by_hand.add_text_column(table.path, "note")
    lake_table = world.iceberg(table)
    rows = lake_table.scan().to_arrow()
    notes = pa.array(["look"] * len(rows), pa.string())
    lake_table.overwrite(rows.set_column(rows.schema.get_field_index("note"), "note", notes))
    write = world.storage.upsert if table.primary_key else world.storage.append
    write(table.path, visits(300, 1, D1), "w", 2)  # an empty round looks at no column
    assert world.tier(table).error is not None


def hint(world: LakeWorld) -> str:
    [status] = world.coordinator.view().table_statuses()
    return status.error_hint or ""


@pytest.mark.parametrize("primary_key", [False, True], ids=["log", "primary-key"])
def test_a_rename_is_named_only_while_no_partition_was_dropped(world: LakeWorld, primary_key: bool) -> None:
    table = tiered(world, primary_key=primary_key)
    fill_note(world, table)
    statement = next_action(world.coordinator, table)
    assert statement is not None
    assert "RENAME TO" in statement


@pytest.mark.parametrize("primary_key", [False, True], ids=["log", "primary-key"])
@pytest.mark.parametrize("is_recreated", [False, True])
def test_no_rename_is_named_where_rows_of_a_dropped_partition_would_be_missing(
    world: LakeWorld, primary_key: bool, is_recreated: bool
) -> None:
    table = tiered(world, primary_key=primary_key)
    world.storage.drop_partition(table.path, "1970-01-01")
    if is_recreated:
        write = world.storage.upsert if primary_key else world.storage.append
        write(table.path, visits(200, 1, D0), "late", 0)
    fill_note(world, table)
    assert next_action(world.coordinator, table) is None
    assert "The new lake table would lack up to 10 rows of dropped partitions" in hint(world)


@pytest.mark.parametrize("is_tiered", [False, True])
def test_the_late_rows_of_a_recreated_log_partition_do_not_count(world: LakeWorld, is_tiered: bool) -> None:
    table = tiered(world)
    world.storage.drop_partition(table.path, "1970-01-01")
    world.storage.append(table.path, visits(200, 3, D0), "late", 0)
    if is_tiered:
        assert world.tier(table).error is None
    fill_note(world, table)
    assert next_action(world.coordinator, table) is None
    assert "up to 10 rows of dropped partitions" in hint(world)


@pytest.mark.parametrize("world", [ICEBERG, ICEBERG_CLEAN], ids=lambda kind: kind.name, indirect=True)
@pytest.mark.parametrize("is_compacted", [False, True])
def test_rows_below_a_recreated_key_partition_count_after_its_rounds(world: LakeWorld, is_compacted: bool) -> None:
    """The partition's own row cannot be distinguished from the ten rows of the dropped partition."""
    table = tiered(world, primary_key=True)
    world.storage.drop_partition(table.path, "1970-01-01")
    world.storage.upsert(table.path, visits(200, 1, D0), "late", 0)
    assert world.tier(table).error is None
    if is_compacted:
        world.by_hand.rewrite(table.path)
    world.storage.upsert(table.path, visits(201, 1, D0), "late", 1)
    assert world.tier(table).error is None
    fill_note(world, table)
    assert next_action(world.coordinator, table) is None
    assert "The new lake table would lack up to 12 rows of dropped partitions" in hint(world)


@pytest.mark.parametrize("world", LAKE_KINDS, ids=lambda kind: kind.name, indirect=True)
def test_a_marker_tells_which_key_partitions_were_recreated_over_rows(world: LakeWorld) -> None:
    table = tiered(world, primary_key=True)
    assert archives(world, table) == set()
    world.storage.drop_partition(table.path, "1970-01-01")
    world.storage.upsert(table.path, visits(200, 1, D0), "late", 0)
    assert world.tier(table).error is None
    [recreated] = [part.partition_id for part in world.storage.partitions(table) if part.partition_name == "1970-01-01"]
    assert archives(world, table) == {recreated}
    world.storage.upsert(table.path, visits(101, 1, D1), "w", 2)
    assert world.tier(table).error is None
    assert archives(world, table) == {recreated}, "later rounds keep it"
    world.storage.drop_partition(table.path, "1970-01-01")
    world.storage.upsert(table.path, visits(102, 1, D1), "w", 3)
    assert world.tier(table).error is None
    assert archives(world, table) == set()


@pytest.mark.parametrize("world", LAKE_KINDS, ids=lambda kind: kind.name, indirect=True)
@pytest.mark.parametrize("primary_key", [False, True], ids=["log", "primary-key"])
@pytest.mark.parametrize("rounds_since_the_drop", [0, 1])
def test_retier_in_place_of_a_dropped_lake_table_counts_the_rows_of_dropped_partitions(
    world: LakeWorld, primary_key: bool, rounds_since_the_drop: int
) -> None:
    table = tiered(world, primary_key=primary_key)
    write = world.storage.upsert if primary_key else world.storage.append
    world.storage.drop_partition(table.path, "1970-01-01")
    for number in range(rounds_since_the_drop):
        write(table.path, visits(200 + number, 1, D1), "late", number)
        assert world.tier(table).error is None
    world.restart()
    world.by_hand.drop(table.path)
    write(table.path, visits(300, 1, D1), "w", 2)
    assert isinstance(world.tier(table).error, errors.LakeTableReplaced)
    assert next_action(world.coordinator, table) is None
    assert "'retier') leaves 10 records out of the lake" in hint(world)
    [answer] = call(world.coordinator, "CALL fluss.sys.reconcile_lake('sales.visits', 'retier')")
    assert answer.records_left_out == 10  # type: ignore[attr-defined]
    assert world.tier(table).error is None
    world.by_hand.drop(table.path)
    assert isinstance(world.tier(table).error, errors.LakeTableReplaced)
    assert next_action(world.coordinator, table) is not None, "the new lake table never had them"


@pytest.mark.parametrize("world", [ICEBERG, ICEBERG_CLEAN], ids=lambda kind: kind.name, indirect=True)
@pytest.mark.parametrize("primary_key", [False, True], ids=["log", "primary-key"])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_lake_table_set_back_below_rows_of_dropped_partitions_gets_its_snapshot_again(
    world: LakeWorld, primary_key: bool, is_replaced: bool
) -> None:
    """The log has all that living partitions lack; `retier` would go on without the rows of the dropped one."""
    table = tiered(world, primary_key=primary_key)
    write = world.storage.upsert if primary_key else world.storage.append
    write(table.path, visits(500, 3, D1 + 40), "w", 2)
    assert world.tier(table).error is None
    world.storage.drop_partition(table.path, "1970-03-22")
    write(table.path, visits(200, 1, D1), "w", 3)
    assert world.tier(table).error is None
    lake_table = world.iceberg(table)
    if is_replaced:
        lake_table.catalog.commit_table(lake_table, (), (RemoveSnapshotRefUpdate(ref_name="main"),))
    else:
        world.by_hand.roll_back(table.path, world.by_hand.snapshots(table.path)[0])
    write(table.path, visits(300, 1, D1), "w", 4)
    assert isinstance(world.tier(table).error, errors.LakeRolledBack)
    [statement] = follow(world.coordinator, table, in_lake(world))
    assert "set_current_snapshot" in statement
    assert "'retier') leaves 3 records out of the lake" in hint(world)
    assert world.tier(table).error is None
    assert sorted(world.by_hand.rows(table.path)["id"].to_pylist()) == [*range(10), *range(100, 105), 200, 300, 500, 501, 502]


def test_a_dropped_lake_table_without_rows_of_dropped_partitions_is_tiered_anew(world: LakeWorld) -> None:
    """A user had deleted them."""
    table = tiered(world)
    world.storage.drop_partition(table.path, "1970-01-01")
    world.iceberg(table).delete("day = '1970-01-01'")
    world.storage.append(table.path, visits(200, 1, D1), "late", 0)
    assert world.tier(table).error is None
    world.by_hand.drop(table.path)
    assert isinstance(world.tier(table).error, errors.LakeTableReplaced)
    assert next_action(world.coordinator, table) is not None


@pytest.mark.parametrize("world", LAKE_KINDS, ids=lambda kind: kind.name, indirect=True)
@pytest.mark.parametrize("primary_key", [False, True], ids=["log", "primary-key"])
def test_a_partition_that_a_rollback_removed_is_no_dropped_one(world: LakeWorld, primary_key: bool) -> None:
    """The next round tiers the rows again, so a second rollback loses nothing either."""
    table = tiered(world, primary_key=primary_key)
    write = world.storage.upsert if primary_key else world.storage.append
    for number in range(2):
        before = world.by_hand.head(table.path)
        write(table.path, visits(500 + number, 1, D1 + 40 + number), "w", 2 + number)
        assert world.tier(table).error is None
        world.by_hand.roll_back(table.path, before)
        write(table.path, visits(600 + number, 1, D1), "late", number)
        assert world.tier(table).error is not None
        [statement] = follow(world.coordinator, table, in_lake(world))
        assert "'retier'" in statement
        assert world.tier(table).error is None
        record = world.record(table)
        assert record.lake.archived_records == 0
    assert sorted(world.by_hand.rows(table.path)["id"].to_pylist()) == [*range(10), *range(100, 105), 500, 501, 600, 601]


def archives(world: LakeWorld, table: TableInfo) -> frozenset[int] | None:
    marker = world.view(table).marker
    assert marker is not None
    return marker.archives


@pytest.mark.parametrize("world", LAKE_KINDS, ids=lambda kind: kind.name, indirect=True)
@pytest.mark.parametrize("primary_key", [False, True], ids=["log", "primary-key"])
def test_rows_are_counted_by_the_name_of_their_partition(world: LakeWorld, primary_key: bool) -> None:
    table = tiered(world, primary_key=primary_key)
    assert isinstance(world.lake, PartitionRows)
    assert dict(world.lake.partition_rows(table, world.view(table))) == {"1970-01-01": 10, "1970-02-10": 5}
