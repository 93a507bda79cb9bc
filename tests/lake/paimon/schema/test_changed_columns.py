"""The columns of a Paimon table follow those of its source; every reader sees each value under its present name."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pypaimon import CatalogFactory
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import SchemaChange as SchemaChangeOfPaimon

from support.evolving.paimon_table import CLEAN, EvolvingTable
from support.lakes.paimon_kit import PaimonKit
from support.values.schemas import change_of, types, values
from tiering.errors import InvalidArgument, SchemaDrift, SourceChanged
from tiering.lake.schema.column_ids import COLUMN_IDS
from tiering.model.schema.changes import (
    AddColumn,
    After,
    ChangeComment,
    ChangeType,
    DropColumn,
    DropNotNull,
    MoveColumn,
    RenameColumn,
    SchemaChange,
)
from tiering.model.schema.field_ids import without_field_ids

PLACE = pa.struct([("city", pa.string()), ("zip", pa.int32())])
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("qty", pa.int32(), nullable=False),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("place", PLACE),
        pa.field("places", pa.map_(pa.string(), pa.list_(PLACE))),
    ]
)
ROW = {"qty": 5, "price": None, "place": {"city": "Bonn", "zip": 53111}, "places": [("a", [{"city": "Ulm", "zip": 1}, None])]}
TABLES = pytest.mark.parametrize("is_keyed", [False, True], ids=["log", "keyed"])
LAYOUTS = pytest.mark.parametrize("properties", [CLEAN, {}], ids=["clean", "system-columns"])

CHANGES: dict[str, list[SchemaChange]] = {
    "add": [AddColumn(pa.field("note", pa.string()), position=After("id"))],
    "add nested": [
        AddColumn(pa.field("street", pa.string()), ("place",)),
        AddColumn(pa.field("n", pa.int8()), ("places", "value", "element")),
    ],
    "drop": [DropColumn(("qty",))],
    "drop nested": [DropColumn(("place", "city")), DropColumn(("places", "value", "element", "zip"))],
    "rename": [RenameColumn(("qty",), "quantity"), RenameColumn(("place", "city"), "town")],
    "swap names": [RenameColumn(("qty",), "x"), RenameColumn(("price",), "qty"), RenameColumn(("x",), "price")],
    "use a name again": [DropColumn(("qty",)), AddColumn(pa.field("qty", pa.string()))],
    "widen": [ChangeType(("qty",), pa.int64()), ChangeType(("price",), pa.decimal128(20, 2)), ChangeType(("place", "zip"), pa.int64())],
    "change a comment": [ChangeComment(("qty",), "pieces"), ChangeComment(("place", "zip"), "of the town")],
    "make nullable": [DropNotNull(("qty",))],
    "move": [MoveColumn(("price",), After(None)), MoveColumn(("place", "zip"), After(None))],
}


NEW_ROWS: dict[str, dict[str, object]] = {
    "drop": {},
    "make nullable": {"qty": None},
    "rename": {"quantity": 7},
    "swap names": {"price": 7},
    "use a name again": {"qty": "seven"},
}


@pytest.mark.parametrize("name", CHANGES)
@TABLES
@LAYOUTS
def test_every_reader_sees_each_value_under_its_present_name(kit: PaimonKit, name: str, is_keyed: bool, properties: dict[str, str]) -> None:
    table = EvolvingTable(kit, COLUMNS, is_keyed=is_keyed, **properties)
    table.add({"id": 1, **ROW}, {"id": 2, **ROW, "place": None, "places": None})
    table.change(*CHANGES[name])
    assert table.by_readers() == table.expected, "the lake has not followed yet"
    first = table.view.head
    table.add({"id": 3, **NEW_ROWS.get(name, {"qty": 7})})
    assert table.by_readers() == table.expected
    assert table.by_pypaimon() == table.expected
    assert len(table.by_readers(first)) == 2


def documents(kit: PaimonKit, table: EvolvingTable) -> list[dict[str, Any]]:
    folder = kit.folder(table.table) / "schema"
    return [json.loads((folder / f"schema-{number}").read_text()) for number in range(len(list(folder.iterdir())))]


def test_one_schema_file_has_all_changes_and_the_ids(kit: PaimonKit) -> None:
    table = EvolvingTable(kit, COLUMNS)
    table.add({"id": 1, **ROW})
    table.change(RenameColumn(("qty",), "quantity"), ChangeComment(("price",), "net"), DropColumn(("place",)))
    table.add({"id": 2, "quantity": 7})
    first, second = documents(kit, table)
    assert first["options"][COLUMN_IDS] == "0/1/7;1:0*4,5:6,6:4*2,8:536864767,9:536877055*2,11:7*2"
    assert second["options"][COLUMN_IDS].startswith("1/2/7;")
    named = {field["id"]: (field["name"], field["type"], field.get("description")) for field in second["fields"]}
    assert named[1] == ("quantity", "INT NOT NULL", None)
    assert named[2] == ("price", "DECIMAL(9, 2)", "net")
    assert named[3][0] == "place"
    assert len(documents(kit, table)) == 2, "a round without changes of the columns adds none"


@TABLES
def test_a_map_as_the_first_column_follows(kit: PaimonKit, is_keyed: bool) -> None:
    """Paimon derives one id for the key and the value of a map that is its field 0."""
    prices = pa.field("prices", pa.map_(pa.string(), pa.int32()))
    table = EvolvingTable(kit, pa.schema([prices, pa.field("id", pa.int64(), nullable=False)]), is_keyed=is_keyed)
    table.add({"id": 1, "prices": [("a", 5)]})
    table.change(ChangeType(("prices", "value"), pa.int64()), RenameColumn(("prices",), "net"))
    table.add({"id": 2, "net": [("b", 2**40)]})
    assert table.by_readers() == table.by_pypaimon() == table.expected


def test_a_dropped_column_is_dropped_in_the_lake_if_the_option_says_so(kit: PaimonKit) -> None:
    table = EvolvingTable(kit, COLUMNS, **{"table.datalake.on-drop-column": "drop"})
    table.add({"id": 1, **ROW})
    table.change(DropColumn(("qty",)), DropColumn(("place", "city")))
    table.add({"id": 2})
    assert "qty" not in kit.read(table.table).column_names
    assert table.by_readers() == table.by_pypaimon() == table.expected
    table.change(AddColumn(pa.field("qty", pa.int32())))
    table.add({"id": 3, "qty": 9})
    assert table.by_readers() == table.by_pypaimon() == table.expected


def test_a_round_with_an_older_schema_does_not_undo_a_change(kit: PaimonKit) -> None:
    table = EvolvingTable(kit, COLUMNS)
    table.add({"id": 1, **ROW})
    older = table.table
    table.change(RenameColumn(("qty",), "quantity"))
    table.add({"id": 2, "quantity": 7})
    with pytest.raises(SourceChanged, match="follows the columns of the source's schema 2"):
        kit.lake.ensure_table(older)
    assert len(documents(kit, table)) == 2


def test_a_table_of_an_older_version_gets_the_ids_and_follows(kit: PaimonKit) -> None:
    table = EvolvingTable(kit, COLUMNS)
    numbered, table.table = (
        table.table,
        replace(table.table, schema=pa.schema([without_field_ids(field) for field in COLUMNS]), schema_id=0),
    )
    table.add({"id": 1, **ROW})
    assert COLUMN_IDS not in documents(kit, table)[0]["options"]
    table.table = numbered
    table.change(RenameColumn(("qty",), "quantity"), AddColumn(pa.field("qty", pa.string())))
    kit.lake.ensure_table(table.table)
    assert [row["quantity"] for row in table.by_readers()] == [5]
    assert documents(kit, table)[1]["options"][COLUMN_IDS].startswith("1/2/7;")


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (SchemaChangeOfPaimon.rename_column("qty", "pieces"), "has the column 'qty' renamed to 'pieces'"),
        (SchemaChangeOfPaimon.drop_column("price"), "lacks the column 'price', which it had before: it was dropped"),
        (SchemaChangeOfPaimon.add_column("note", AtomicType("STRING")), "has the column 'note', which the source table does not have"),
        (SchemaChangeOfPaimon.update_column_type("price", AtomicType("STRING")), "has the column 'price' as string"),
    ],
)
def test_a_change_by_another_program_parks_the_table(kit: PaimonKit, change: Any, difference: str) -> None:
    table = EvolvingTable(kit, COLUMNS)
    table.add({"id": 1, **ROW})
    CatalogFactory.create({"warehouse": str(kit.warehouse)}).alter_table(str(table.table.path), [change])
    table.change(ChangeComment(("id",), "the key"))
    with pytest.raises(SchemaDrift, match=difference):
        kit.lake.ensure_table(table.table)
    assert len(documents(kit, table)) == 2


@settings(max_examples=15, phases=[Phase.generate])
@given(data=st.data(), is_keyed=st.booleans(), is_clean=st.booleans(), keeps=st.booleans())
def test_any_changes_of_the_columns(data: st.DataObject, is_keyed: bool, is_clean: bool, keeps: bool) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), *(pa.field(f"c{n}", data.draw(types())) for n in range(2))])
    properties = (CLEAN if is_clean else {}) | {"table.datalake.on-drop-column": "keep" if keeps else "drop"}
    with tempfile.TemporaryDirectory() as folder:
        table = EvolvingTable(PaimonKit(Path(folder)), columns, is_keyed=is_keyed, **properties)
        for number in range(5):
            schema = table.table.schema
            others = {field.name: field.type for field in schema if field.name != "id"}
            for key in (number, number + 1) if is_keyed else (2 * number, 2 * number + 1):
                table.add({"id": key, **{name: data.draw(values(kind)) for name, kind in others.items()}})
            assert table.by_readers() == table.expected
            with suppress(InvalidArgument):  # a change that this schema does not allow
                table.change(data.draw(change_of(table.table.schema, number)))
            assert table.by_readers() == table.expected, "the lake has not followed yet"
        table.kit.lake.ensure_table(table.table)
        assert table.by_pypaimon() == table.expected
