"""A lake table equals its log, also with rows from before and after changes of the columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults
from tiering.model.schema.changes import AddColumn, After, ChangeType, DropColumn, MoveColumn, RenameColumn
from tiering.model.tables import TableInfo

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("size", pa.int32()),
        pa.field("at", pa.struct([("x", pa.float32()), ("y", pa.int8())])),
        pa.field("old", pa.string()),
    ]
)
CHANGES = [
    RenameColumn(("text",), "words"),
    ChangeType(("size",), pa.int64()),
    RenameColumn(("at", "x"), "left"),
    ChangeType(("at", "left"), pa.float64()),
    AddColumn(pa.field("z", pa.string()), ("at",), After(None)),
    DropColumn(("old",)),
    MoveColumn(("size",), After(None)),
]


@pytest.mark.parametrize("layout", ["clean", "system-columns"])
@pytest.mark.parametrize("is_keyed", [False, True], ids=["log", "primary key"])
def test_rows_from_before_and_after_changes_are_equal_in_lake_and_log(world: LakeWorld, is_keyed: bool, layout: str) -> None:
    options = {"datalake_layout": layout}
    create = world.primary_key_table if is_keyed else world.table
    table = create("orders", 1, schema=COLUMNS, **options)
    write = world.storage.upsert if is_keyed else world.storage.append

    def send(number: int, table: TableInfo, row: dict[str, Any]) -> None:
        write(table.path, pa.RecordBatch.from_pylist([row], schema=table.schema), "sizes", number)

    send(0, table, {"id": 0, "text": "a", "size": 1, "at": {"x": 0.5, "y": 1}, "old": "x"})
    world.tier(table)
    send(1, table, {"id": 1, "text": "b", "size": 2, "at": None, "old": "y"})
    changed = world.storage.alter_table(table.path, {}, CHANGES)
    send(2, changed, {"id": 2, "words": "c", "size": 2**40, "at": {"z": "z", "left": 1e300, "y": None}})
    world.tier(changed)
    send(3, changed, {"id": 0, "words": "d", "size": None, "at": {"z": None, "left": None, "y": 2}})
    world.tier(changed)

    assert faults(check(world, changed)) == []
