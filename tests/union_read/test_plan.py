"""Union reads of log tables: each row of lake and log once, as of the planning."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.fresh.union_reads import PlannedRead, planned_read
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, in_lakes
from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering.errors import LakeDisabled, LakeRolledBack, SchemaDrift, SourceChanged
from tiering.lake.base import LakeView
from tiering.lake.table_options import ENABLED
from tiering.model.reading.scans import ReadPart, ReadScan
from tiering.model.schema.changes import AddColumn, After, ChangeType, DropColumn, MoveColumn, RenameColumn, additions
from tiering.model.tables import TableInfo, TablePath

LOG_TTL_S = 60
pytestmark = in_lakes(ICEBERG, ICEBERG_CLEAN)


def plan(world: LakeWorld, table: TableInfo) -> PlannedRead:
    return planned_read(world.storage, lambda name: world.lake, table.path)


def ids(read: PlannedRead) -> list[int]:
    return sorted(read.rows().column("id").to_pylist())


def test_before_the_first_round_all_rows_come_from_the_log(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 10)

    read = plan(world, table)

    assert (read.moment.lake_snapshot_id, read.moment.log_records) == (None, 10)
    assert ids(read) == list(range(10))


def test_rows_of_the_lake_and_newer_rows_of_the_log_are_read_once(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    world.append(table, 10, 4)

    read = plan(world, table)

    assert (read.moment.lake_snapshot_id, read.moment.log_records) == (world.view(table).head, 4)
    assert ids(read) == list(range(14))


def test_a_planned_read_is_repeatable_while_rounds_go_on(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    world.append(table, 10, 4)
    read = plan(world, table)

    world.append(table, 14, 6)
    world.tier(table)

    assert ids(read) == list(range(14))
    assert ids(plan(world, table)) == list(range(20))


def test_an_empty_table_has_no_task(world: LakeWorld) -> None:
    assert plan(world, world.table("orders")).tasks() == []


def test_rows_that_a_user_deleted_in_the_lake_stay_deleted(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    world.iceberg(table).delete("id = 3")
    world.append(table, 10, 2)

    assert ids(plan(world, table)) == [id for id in range(12) if id != 3]


def test_a_lake_table_that_was_rolled_back_is_refused(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    first = world.view(table).head
    world.append(table, 10, 4)
    world.tier(table)
    assert first is not None
    world.iceberg(table).manage_snapshots().set_current_snapshot(first).commit()

    with pytest.raises(LakeRolledBack):
        plan(world, table)


def disable_lake(world: LakeWorld, table: TableInfo) -> None:
    world.storage.set_table_option(table.path, ENABLED.name, "false")


def cut_log(world: LakeWorld) -> None:
    world.clock.advance(LOG_TTL_S + 1)
    world.storage.maintenance.run()


def test_rows_that_only_the_copy_of_a_disabled_lake_has_are_an_error(world: LakeWorld) -> None:
    table = world.table("orders", buckets=1, log_ttl=f"{LOG_TTL_S} s")
    world.append(table, 0, 10)
    world.tier(table)
    disable_lake(world, table)
    assert ids(plan(world, table)) == list(range(10))
    cut_log(world)
    world.append(table, 10, 4)
    read = plan(world, table)

    for part in (ReadPart.ROWS, ReadPart.LOG_ROWS):
        with pytest.raises(LakeDisabled, match=r"sales\.orders is disabled, .* before offset 10 of bucket 0 are only in") as raised:
            read.rows(ReadScan(part))
    assert "set_table_option('sales.orders', 'table.datalake.enabled', 'true')" in raised.value.hint
    with pytest.raises(LakeDisabled):
        read.count()
    assert read.rows(ReadScan(ReadPart.CHANGELOG)).column("id").to_pylist() == list(range(10, 14))

    world.storage.set_table_option(table.path, ENABLED.name, "true")
    assert ids(plan(world, table)) == list(range(14))
    with pytest.raises(LakeDisabled):
        read.rows()


def test_a_partition_that_was_never_tiered_is_read_from_its_cut_log(world: LakeWorld) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("region", pa.string(), nullable=False)])
    table = world.table("visits", partition_keys=("region",), schema=schema, log_ttl=f"{LOG_TTL_S} s")
    world.storage.append(table.path, pa.record_batch({"id": [0], "region": ["north"]}, schema=schema), "writer", 0)
    world.tier(table)
    disable_lake(world, table)
    world.storage.append(table.path, pa.record_batch({"id": [1], "region": ["west"]}, schema=schema), "writer", 1)
    cut_log(world)
    world.storage.append(table.path, pa.record_batch({"id": [2], "region": ["west"]}, schema=schema), "writer", 2)
    with pytest.raises(LakeDisabled):
        plan(world, table).rows()
    world.storage.drop_partition(table.path, "north")

    assert ids(plan(world, table)) == [2]


def test_a_table_that_never_had_a_lake_copy_is_read_from_its_cut_log(world: LakeWorld) -> None:
    table = world.table("orders", buckets=1, log_ttl=f"{LOG_TTL_S} s", datalake_enabled="false")
    world.append(table, 0, 10)
    cut_log(world)
    world.append(table, 10, 4)

    assert ids(plan(world, table)) == list(range(10, 14))


def test_a_primary_key_table_whose_lake_is_disabled_has_all_rows_in_kv_snapshot_and_log(world: LakeWorld) -> None:
    table = world.primary_key_table("accounts", buckets=1, log_ttl=f"{LOG_TTL_S} s")
    for sequence, keys in enumerate(([1, 2], [2, 3])):
        rows = pa.record_batch({"id": keys, "text": [f"text {sequence}"] * 2}, schema=table.schema)
        world.storage.upsert(table.path, rows, "writer", sequence)
        world.storage.take_kv_snapshots(table.path)
        world.tier(table)
    disable_lake(world, table)
    world.storage.take_kv_snapshots(table.path)
    cut_log(world)
    assert [log.log_start for log in world.storage.offsets(table).values()] != [0]

    assert ids(plan(world, table)) == [1, 2, 3]


def test_a_column_that_a_user_renames_in_the_lake_since_the_read_began_is_an_error(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    world.append(table, 10, 4)
    read = plan(world, table)
    world.iceberg(table).update_schema().rename_column("text", "words").commit()

    with pytest.raises(SchemaDrift, match="'text' renamed to 'words'"):
        read.rows()

    world.iceberg(table).update_schema().rename_column("words", "text").commit()
    assert ids(read) == list(range(14))


def test_a_column_that_the_lake_does_not_have_yet_is_null_there(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 4)
    world.tier(table)
    world.storage.alter_table(table.path, {}, additions([pa.field("rating", pa.int16())]))
    grown = world.storage.table(table.path)
    row = pa.record_batch({"id": [4], "text": ["row 4"], "rating": [5]}, schema=grown.schema)
    world.storage.append(table.path, row, "rater", 0)

    read = plan(world, table).rows().sort_by("id").to_pylist()

    assert [row["rating"] for row in read] == [None, None, None, None, 5]


def test_rows_of_lake_and_log_from_before_and_after_changes_have_the_columns_of_now(world: LakeWorld) -> None:
    schema = pa.schema([*SCHEMA, pa.field("size", pa.int32()), pa.field("old", pa.string())])
    table = world.table("orders", schema=schema)

    def write(number: int, row: dict[str, object]) -> None:
        world.storage.append(table.path, pa.RecordBatch.from_pylist([row], schema=world.storage.table(table.path).schema), "sizes", number)

    write(0, {"id": 0, "text": "a", "size": 1, "old": "x"})
    world.tier(table)
    write(1, {"id": 1, "text": "b", "size": 2, "old": "y"})
    renamed = [
        RenameColumn(("text",), "words"),
        ChangeType(("size",), pa.int64()),
        MoveColumn(("size",), After(None)),
        DropColumn(("old",)),
    ]
    world.storage.alter_table(table.path, {}, renamed)
    write(2, {"id": 2, "words": "c", "size": 2**40})
    world.tier(world.storage.table(table.path))
    write(3, {"id": 3, "words": "d", "size": None})
    read = plan(world, table)

    assert read.rows().sort_by("id").to_pylist() == [
        {"size": 1, "id": 0, "words": "a"},
        {"size": 2, "id": 1, "words": "b"},
        {"size": 2**40, "id": 2, "words": "c"},
        {"size": None, "id": 3, "words": "d"},
    ]


def test_a_read_ends_if_a_name_means_another_column_since_it_began(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 4)
    read = plan(world, table)
    world.storage.alter_table(table.path, {}, additions([pa.field("rating", pa.int16())]))
    assert ids(read) == [0, 1, 2, 3]

    world.storage.alter_table(table.path, {}, [DropColumn(("text",)), AddColumn(pa.field("text", pa.string()))])
    with pytest.raises(SourceChanged, match="were changed since the read began"):
        read.rows()


def test_narrow_integers_have_the_type_of_the_source(world: LakeWorld) -> None:
    schema = pa.schema([*SCHEMA, pa.field("small", pa.int8())])
    table = world.table("orders", schema=schema)
    batch = pa.record_batch({"id": [0, 1], "text": ["a", "b"], "small": [-128, 127]}, schema=schema)
    world.storage.append(table.path, batch, "writer", 0)
    world.tier(table)

    assert plan(world, table).rows().column("small").to_pylist() == [-128, 127]


def test_partitions_that_are_new_since_the_round_are_read_from_the_log(world: LakeWorld) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("region", pa.string(), nullable=False)])
    table = world.table("visits", partition_keys=("region",), schema=schema)
    world.storage.append(table.path, pa.record_batch({"id": [0, 1], "region": ["north", "south"]}, schema=schema), "writer", 0)
    world.tier(table)
    world.storage.append(table.path, pa.record_batch({"id": [2, 3], "region": ["north", "west"]}, schema=schema), "writer", 1)

    assert sorted(tuple(row.values()) for row in plan(world, table).rows().to_pylist()) == [
        (0, "north"),
        (1, "south"),
        (2, "north"),
        (3, "west"),
    ]


def test_a_round_that_commits_during_the_planning_doubles_no_row(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    world.append(table, 10, 4)
    view = world.lake.view

    def view_then_round(path: TablePath) -> LakeView | None:
        monkeypatch.setattr(world.lake, "view", view)
        before = view(path)
        world.tier(table)
        return before

    monkeypatch.setattr(world.lake, "view", view_then_round)

    assert ids(plan(world, table)) == list(range(14))


def test_a_task_reads_only_the_requested_columns_in_their_order(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 2)
    [task] = plan(world, table).tasks(ReadScan(columns=("text", "id")))

    [first, *_] = task.read()

    assert first.schema.names == ["text", "id"]
