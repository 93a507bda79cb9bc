"""Queries on DuckDB over tables whose columns changed: each value is found by field id at any depth, before and after the lake follows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.lake_kinds.kinds import LAKE_KINDS
from support.worlds.data_folders import FolderWorld
from tiering.cli.sql.offline_engine import DuckDbEngine
from tiering.model.schema.changes import AddColumn, After, ChangeType, DropColumn, RenameColumn

PLACE = pa.struct([("city", pa.string()), ("zip", pa.int32())])
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("qty", pa.int32()),
        pa.field("place", PLACE),
        pa.field("visits", pa.list_(PLACE)),
        pa.field("note", pa.string()),
    ]
)
CHANGES = [
    RenameColumn(("qty",), "pieces"),
    ChangeType(("pieces",), pa.int64()),
    RenameColumn(("place", "city"), "town"),
    ChangeType(("place", "zip"), pa.int64()),
    AddColumn(pa.field("street", pa.string()), ("place",), After(None)),
    RenameColumn(("visits", "element", "city"), "town"),
    DropColumn(("note",)),
    AddColumn(pa.field("note", pa.string())),
    AddColumn(pa.field("at", pa.timestamp("us"))),
]
BEFORE = {"id": 1, "qty": 5, "place": {"city": "Bonn", "zip": 1}, "visits": [{"city": "Ulm", "zip": 2}], "note": "former"}
AFTER = {"id": 2, "pieces": 2**40, "place": {"street": "Via", "town": "Rome", "zip": 2**40}, "visits": None, "note": "present", "at": None}
PRESENT = (1, 5, {"street": None, "town": "Bonn", "zip": 1}, [{"town": "Ulm", "zip": 2}], None, None)
FRESH = "SELECT id, pieces, place, visits, note, at FROM sales.orders ORDER BY id"
LAKE = FRESH.replace("sales.orders", "lake.sales.orders")
FORMER_LAKE = "SELECT id, qty, place, visits, note FROM lake.sales.orders ORDER BY id"


class ChangedTable:
    """A table of one bucket, in a folder that an engine reads."""

    def __init__(self, world: FolderWorld, engine: DuckDbEngine, has_key: bool) -> None:
        self._world, self._engine, self._has_key = world, engine, has_key
        create = world.primary_key_table if has_key else world.table
        self._path = create("orders", 1, schema=COLUMNS).path
        self._writes = 0

    def write(self, row: dict[str, Any]) -> None:
        write = self._world.storage.upsert if self._has_key else self._world.storage.append
        write(self._path, pa.Table.from_pylist([row], schema=self._world.storage.table(self._path).schema), "writer", self._writes)
        self._writes += 1

    def tier(self) -> None:
        assert self._world.tier(self._world.storage.table(self._path)).error is None

    def change(self) -> None:
        self._world.storage.alter_table(self._path, {}, CHANGES)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._engine.execute(sql).rows]


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FolderWorld]:
    folder_world = FolderWorld(tmp_path, request.param)
    yield folder_world
    folder_world.close()


@pytest.mark.parametrize("has_key", [False, True], ids=["log", "primary-key"])
def test_values_of_former_columns_are_shown_in_the_present_ones(world: FolderWorld, tmp_path: Path, has_key: bool) -> None:
    engine = DuckDbEngine(tmp_path, world.lake_format, {})
    table = ChangedTable(world, engine, has_key)
    table.write(BEFORE)
    table.tier()
    table.change()

    assert table.rows(FRESH) == [PRESENT]
    assert table.rows("SELECT id FROM sales.orders WHERE pieces = 5 AND place.town = 'Bonn' AND note IS NULL") == [(1,)]
    assert table.rows(FORMER_LAKE) == [tuple(BEFORE.values())]

    table.write(AFTER)
    assert table.rows(FRESH) == [PRESENT, tuple(AFTER.values())]
    table.tier()
    assert table.rows(FRESH) == table.rows(LAKE) == [PRESENT, tuple(AFTER.values())]
    assert table.rows("SELECT * FROM sales.`orders$lake` ORDER BY id") == [PRESENT, tuple(AFTER.values())]
    changes = "SELECT id, pieces, place, visits, note, at FROM sales.`orders$changelog` ORDER BY id"
    assert table.rows(changes) == [PRESENT, tuple(AFTER.values())]
    engine.close()
