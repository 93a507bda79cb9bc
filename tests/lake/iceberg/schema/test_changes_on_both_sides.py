"""A column that another program renamed in the lake while the source changed it, too: `next_action` repairs the table, and it follows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from support.lake_kinds.kinds import ICEBERG_CLEAN
from support.on_call import follow
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults
from tiering.model.schema.changes import AddColumn, ChangeType, RenameColumn, SchemaChange
from tiering.model.tables import TableInfo

ORDERS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("qty", pa.int32())])
CHANGES: dict[str, list[SchemaChange]] = {
    "renamed": [RenameColumn(("qty",), "count")],
    "widened": [ChangeType(("qty",), pa.int64())],
    "its new name added": [AddColumn(pa.field("title", pa.string()))],
}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path, kind=ICEBERG_CLEAN)
    yield lake_world
    lake_world.close()


def append(world: LakeWorld, table: TableInfo, number: int) -> None:
    names = table.schema.names
    row = {"id": number, names[1]: number}
    world.storage.append(table.path, pa.Table.from_pylist([row], schema=table.schema), "writer", number)


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_a_column_that_was_renamed_in_the_lake_gets_its_name_back_and_follows(world: LakeWorld, changes: Sequence[SchemaChange]) -> None:
    table = world.table("orders", 1, schema=ORDERS)
    append(world, table, 1)
    assert world.tier(table).error is None
    world.by_hand.rename_column(table.path, "qty", "title")
    table = world.storage.alter_table(table.path, {}, changes)
    append(world, table, 2)
    error = world.tier(table).error
    assert error is not None
    assert error.error_class == "SchemaDrift"

    def run_in_lake(statement: str) -> None:
        match = re.fullmatch(r"ALTER TABLE lake\.sales\.orders RENAME COLUMN (\w+) TO (\w+)", statement)
        assert match is not None, statement
        world.by_hand.rename_column(table.path, match[1], match[2])

    assert follow(world.coordinator, table, run_in_lake) == ["ALTER TABLE lake.sales.orders RENAME COLUMN title TO qty"]
    assert world.begin(table).end().error is None
    assert sorted(row[table.schema.names[1]] for row in world.by_hand.rows(table.path).to_pylist()) == [1, 2]
    assert faults(check(world, table)) == []
