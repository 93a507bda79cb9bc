"""Union reads of primary-key tables: the last change of each key replaces the lake's row."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from support.fresh.union_reads import WHOLE_TABLE, PlannedRead, planned_read
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from tiering.errors import KvSnapshotGone
from tiering.lake.iceberg.reading import bucket_scan
from tiering.lake.writing import keys
from tiering.model.reading.scans import ReadPart, ReadScan
from tiering.model.tables import CHANGE_TYPE_FIELD, BucketKey, ChangeType, TableBucket, TableInfo
from tiering.union_read.plan import NO_LAKE, open_read, snapshots_to_lease
from tiering.union_read.primary_key import bucket_merges
from tiering.union_read.primary_key.key_merge import MergedRows

KEY_SCHEMA = pa.schema([PRIMARY_KEY_SCHEMA.field("id")])


def upsert(world: LakeWorld, table: TableInfo, ids: Sequence[int], text: str) -> None:
    rows = pa.table({"id": ids, "text": [text] * len(ids)}, schema=PRIMARY_KEY_SCHEMA)
    world.storage.upsert(table.path, rows, f"{text}-{ids}", 0)


def delete(world: LakeWorld, table: TableInfo, ids: Sequence[int]) -> None:
    world.storage.delete(table.path, pa.table({"id": ids}, schema=KEY_SCHEMA), f"delete-{ids}", 0)


def plan(world: LakeWorld, table: TableInfo) -> PlannedRead:
    return planned_read(world.storage, lambda name: world.lake, table.path)


def rows_of(read: PlannedRead, scan: ReadScan = WHOLE_TABLE) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in read.rows(scan).to_pylist())


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    """Keys 0 to 9 are in the lake as "a". The log behind has 3 and 10 as "b", and deletes 4 and 11, which is only in the log."""
    accounts = world.primary_key_table("accounts")
    upsert(world, accounts, range(10), "a")
    world.tier(accounts)
    upsert(world, accounts, [3, 10, 11], "b")
    delete(world, accounts, [4, 11])
    return accounts


EXPECTED = [(id, "b" if id in (3, 10) else "a") for id in range(11) if id != 4]


def test_the_last_change_of_each_key_replaces_the_row_of_the_lake(world: LakeWorld, table: TableInfo) -> None:
    read = plan(world, table)

    assert read.moment.lake_snapshot_id == world.view(table).head
    assert rows_of(read) == EXPECTED


def test_a_planned_read_is_repeatable_while_rounds_go_on(world: LakeWorld, table: TableInfo) -> None:
    read = plan(world, table)

    upsert(world, table, [0, 20], "c")
    world.tier(table)

    assert rows_of(read) == EXPECTED
    assert rows_of(plan(world, table)) == sorted([(0, "c"), *EXPECTED[1:], (20, "c")])


def test_the_log_part_has_the_changed_rows_and_the_changed_keys(world: LakeWorld, table: TableInfo) -> None:
    read = plan(world, table)

    assert rows_of(read, ReadScan(ReadPart.LOG_ROWS)) == [(3, "b"), (10, "b")]
    assert rows_of(read, ReadScan(ReadPart.CHANGED_KEYS)) == [(3,), (4,), (10,), (11,)]


def test_columns_that_are_not_requested_are_not_returned(world: LakeWorld, table: TableInfo) -> None:
    assert rows_of(plan(world, table), ReadScan(columns=("text",))) == sorted((text,) for _, text in EXPECTED)


def test_a_table_without_a_lake_copy_is_read_from_its_log(world: LakeWorld) -> None:
    table = world.primary_key_table("accounts")
    upsert(world, table, [1, 2], "a")
    delete(world, table, [2])

    assert rows_of(plan(world, table)) == [(1, "a")]


def test_executors_read_paimon_files_without_pypaimon() -> None:
    code = "import sys, tiering.lake.paimon.reading.file_readers; sys.exit(any(name.startswith('pypaimon') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("many_keys", [keys.MANY_KEYS, 2], ids=["in memory", "by DuckDB"])
@pytest.mark.parametrize("key", [("id",), ("id", "text")], ids=["one key", "two keys"])
def test_a_bucket_that_is_divided_among_tasks_has_each_row_once(
    world: LakeWorld, key: tuple[str, ...], many_keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "MANY_KEYS", many_keys)
    monkeypatch.setattr(bucket_merges, "TASK_BYTES", 1)
    monkeypatch.setattr(bucket_merges, "LAKE_SHARE", 0)
    monkeypatch.setattr(bucket_scan, "READER_BYTES", 1)
    schema = pa.schema([PRIMARY_KEY_SCHEMA.field("id"), PRIMARY_KEY_SCHEMA.field("text").with_nullable(False), ("number", pa.int32())])
    table = world.primary_key_table("accounts", schema=schema, key=key)
    written: dict[tuple[object, ...], int] = {}
    for number in range(4):
        rows = [{"id": id, "text": f"é{id}", "number": number} for id in range(number, 40, number + 1)]
        world.storage.upsert(table.path, pa.Table.from_pylist(rows, schema=schema), f"writer-{number}", 0)
        written |= {(row["id"], row["text"]): number for row in rows}
        if number < 3:
            world.tier(table)

    read = plan(world, table)

    assert read.rows().sort_by("id").to_pylist() == [{"id": id, "text": f"é{id}", "number": written[id, f"é{id}"]} for id in range(40)]
    assert len(rows_of(read, ReadScan(ReadPart.CHANGED_KEYS))) == 10


def test_a_bucket_that_the_log_no_longer_holds_whole_begins_with_its_kv_snapshot(world: LakeWorld) -> None:
    table = world.primary_key_table("accounts")
    upsert(world, table, range(10), "a")
    world.storage.take_kv_snapshots(table.path)
    upsert(world, table, [3, 10], "b")
    delete(world, table, [4])

    read = plan(world, table)

    assert read.moment.lake_snapshot_id is None
    assert snapshots_to_lease(read.moment).keys() == {TableBucket(table.table_id, BucketKey(None, bucket)) for bucket in range(2)}
    assert rows_of(read) == EXPECTED
    assert rows_of(read, ReadScan(ReadPart.LOG_ROWS)) == EXPECTED
    assert rows_of(read, ReadScan(ReadPart.CHANGED_KEYS)) == [(id,) for id in range(11)]


def test_a_kv_snapshot_that_is_gone_before_it_is_leased_makes_a_new_plan(world: LakeWorld) -> None:
    table = world.primary_key_table("accounts")
    upsert(world, table, range(10), "a")
    world.storage.take_kv_snapshots(table.path)
    leased: list[dict[TableBucket, int]] = []

    def lease(snapshots: Mapping[TableBucket, int]) -> Collection[TableBucket]:
        leased.append(dict(snapshots))
        if len(leased) > 1:
            return ()
        upsert(world, table, range(20), "b")
        world.storage.take_kv_snapshots(table.path)
        return list(snapshots)[:1]

    moment = open_read(world.storage, table.path, lambda _: NO_LAKE, lease)

    assert leased[1] == snapshots_to_lease(moment) != leased[0]
    assert rows_of(PlannedRead(world.storage, lambda _: world.lake, moment)) == [(id, "b") for id in range(20)]


def test_a_kv_snapshot_that_is_gone_at_each_attempt_is_an_error(world: LakeWorld) -> None:
    table = world.primary_key_table("accounts")
    upsert(world, table, range(10), "a")
    world.storage.take_kv_snapshots(table.path)

    with pytest.raises(KvSnapshotGone, match="was deleted before a read could lease it"):
        open_read(world.storage, table.path, lambda _: NO_LAKE, list)


def test_a_change_log_without_before_images_may_begin_a_key_with_an_update() -> None:
    schema = pa.schema([*PRIMARY_KEY_SCHEMA, CHANGE_TYPE_FIELD])
    kinds = [ChangeType.UPDATE_AFTER, ChangeType.UPDATE_AFTER, ChangeType.INSERT, ChangeType.DELETE, ChangeType.UPDATE_AFTER]
    changes = pa.record_batch({"id": [1, 2, 3, 3, 2], "text": list("abcde"), "__change_type": kinds}, schema=schema)
    base = pa.record_batch({"id": [0, 1, 3], "text": ["x", "y", "z"]}, schema=PRIMARY_KEY_SCHEMA)
    merge = MergedRows(("id",), PRIMARY_KEY_SCHEMA, (Batches(changes),), (Batches(base),), 1)

    assert [tuple(row.values()) for batch in merge.read(("id", "text")) for row in batch.to_pylist()] == [(0, "x"), (1, "a"), (2, "e")]


@dataclass(frozen=True)
class Batches:
    """A reader of one batch."""

    batch: pa.RecordBatch
    split: Any = None
    size_bytes: int = 1

    def read(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        yield self.batch if columns is None else self.batch.select(list(columns))
