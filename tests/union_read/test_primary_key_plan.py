"""Union reads of primary-key tables: the last change of each key replaces the lake's row."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from support.lake_kinds.kinds import LAKE_KINDS
from support.readers.union_reads import WHOLE_TABLE, PlannedRead, planned_read
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from tiering.model.reading.scans import ReadPart, ReadScan
from tiering.model.tables import TableInfo

KEY_SCHEMA = pa.schema([PRIMARY_KEY_SCHEMA.field("id")])


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path, kind=request.param)
    yield lake_world
    lake_world.close()


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
