"""An Iceberg table follows the changes of its source's columns in commits of their own, and every reader sees all rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.table.update import RemoveSchemasUpdate, TableUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, StringType

from support.evolving.world import EvolvingWorld
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, LakeKind
from support.lakes.lake_proof import rewrite_by_hand
from tiering.errors import SchemaDrift, SourceChanged
from tiering.lake.iceberg.schema.columns import lake_columns
from tiering.lake.rules.upkeep import small_files
from tiering.lake.schema.column_ids import COLUMN_IDS, ColumnIds, same_fields
from tiering.model.schema.changes import AddColumn, After, ChangeComment, ChangeType, DropColumn, MoveColumn, RenameColumn, SchemaChange

PLACE = pa.struct([pa.field("city", pa.string()), pa.field("zip", pa.int32())])
ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("qty", pa.int32()),
        pa.field("place", PLACE),
        pa.field("visits", pa.list_(PLACE)),
    ]
)
KINDS = [ICEBERG, ICEBERG_CLEAN]


def order(number: int, **more: object) -> dict[str, object]:
    place = {"city": f"city {number}", "zip": number}
    return {"id": number, "qty": number, "place": place, "visits": [place, None], **more}


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> LakeKind:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def world(tmp_path: Path, kind: LakeKind) -> EvolvingWorld:
    return EvolvingWorld(tmp_path, kind, ORDERS)


def names(world: EvolvingWorld) -> list[tuple[str, int]]:
    fields = world.iceberg(world.info).schema().fields
    return [(field.name, field.field_id) for field in fields if not field.name.startswith("__")]


def test_the_property_of_a_new_lake_table_names_its_ids(world: EvolvingWorld) -> None:
    world.append(order(1))
    world.tier_now()
    iceberg = world.iceberg(world.info)
    expected = same_fields(world.info, lake_columns(iceberg.schema()))
    assert ColumnIds.parse(iceberg.properties[COLUMN_IDS]) == expected
    assert len(iceberg.metadata.schemas) == 1
    world.assert_exact()


def test_a_renamed_column_keeps_its_values_and_a_dropped_one_stays_in_the_lake(world: EvolvingWorld) -> None:
    world.append(order(1), order(2))
    world.tier_now()
    world.change(RenameColumn(("qty",), "count"), DropColumn(("place",)))
    world.append({"id": 3, "count": 3})
    world.tier_now()
    assert names(world) == [("id", 1), ("count", 2), ("visits", 4), ("place", 3)]
    assert sorted(row["place"]["city"] for row in world.lake_table().to_pylist() if row["place"]) == ["city 1", "city 2"]
    world.assert_exact()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ((), False),
        ((AddColumn(pa.field("note", pa.string())),), False),
        ((MoveColumn(("qty",), After(None)), ChangeComment(("qty",), "pieces")), False),
        ((RenameColumn(("qty",), "count"),), True),
        ((RenameColumn(("visits", "element", "zip"), "code"),), True),
        ((DropColumn(("place", "zip")),), True),
        ((ChangeType(("qty",), pa.int64()),), True),
        ((DropColumn(("qty",)), AddColumn(pa.field("qty", pa.string()))), True),
    ],
)
def test_a_reader_by_names_is_told_whether_the_snapshot_has_the_columns_of_the_source(
    world: EvolvingWorld, changes: tuple[SchemaChange, ...], expected: bool
) -> None:
    def has_other_columns() -> bool:
        view = world.view(world.info)
        assert view.head is not None
        return world.lake.has_other_columns(world.info, view, view.head)

    world.append(order(1))
    world.tier_now()
    world.change(*changes)
    assert has_other_columns() is expected
    world.lake.ensure_table(world.info)
    assert has_other_columns() is expected, "the lake follows, but its newest snapshot still has the former columns"
    world.append({"id": 2})
    world.tier_now()
    assert has_other_columns() is (changes == (DropColumn(("place", "zip")),)), "the lake keeps the dropped field in its struct"


CHANGES = [
    pytest.param((RenameColumn(("qty",), "count"), RenameColumn(("place", "zip"), "code")), id="renamed"),
    pytest.param((DropColumn(("qty",)), AddColumn(pa.field("qty", pa.string()))), id="dropped and added"),
    pytest.param((ChangeType(("qty",), pa.int64()), ChangeType(("visits", "element", "zip"), pa.int64())), id="widened"),
    pytest.param((MoveColumn(("place",), After(None)), ChangeComment(("qty",), "pieces"), DropColumn(("place", "city"))), id="moved"),
]


@pytest.mark.parametrize("drops", ["keep", "drop"])
@pytest.mark.parametrize("has_key", [False, True], ids=["log", "primary-key"])
@pytest.mark.parametrize("changes", CHANGES)
def test_files_of_former_columns_are_merged_with_later_ones_and_proved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: LakeKind, changes: tuple[SchemaChange, ...], has_key: bool, drops: str
) -> None:
    monkeypatch.setattr(small_files, "SMALL_FILES", 1)
    world = EvolvingWorld(tmp_path, kind, ORDERS, has_key=has_key, options={"table.datalake.on-drop-column": drops})
    for number in range(4):
        rows = [{name: value for name, value in order(number * 10 + key).items() if name in world.info.schema.names} for key in range(4)]
        rows = [{**row, "qty": None} for row in rows] if number >= 2 and "qty" in world.info.schema.names else rows
        for row in rows:
            world.upsert(row) if has_key else world.append(row)
        world.tier_now()
        world.assert_exact()
        if number == 1:
            world.change(*changes)
            world.assert_exact()
    table = world.iceberg(world.info)
    assert len(table.inspect.files()) <= (1 if has_key else 2) * 2, "a merge that fails leaves the files as they are"
    world.cut_log()
    world.assert_exact()


def test_a_dropped_column_leaves_no_sort_order_by_it(tmp_path: Path) -> None:
    world = EvolvingWorld(tmp_path, ICEBERG_CLEAN, ORDERS, has_key=False, options={"table.datalake.on-drop-column": "drop"})
    world.append(order(1))
    world.tier_now()
    with world.iceberg(world.info).update_sort_order() as update:  # a user set it, or it stayed when the option became `none`
        update.asc("qty", IdentityTransform())
    world.change(DropColumn(("qty",)))
    world.append({"id": 2})
    world.tier_now()
    world.assert_exact()
    loaded = world.iceberg(world.info)
    assert "qty" not in loaded.schema().column_names
    assert loaded.sort_order().is_unsorted


FOREIGN = [
    ("renamed", "has the column 'qty' renamed to 'title'", "rename_column"),
    ("dropped", "lacks the column 'qty', which it had before: it was dropped", None),
    ("dropped and recreated", "has another column 'qty' than the one of the last round", None),
    ("added", "has the column 'extra', which the source table does not have", "drop_column"),
    ("required", "requires values in the column 'qty'", "drop_not_null"),
    ("retyped", "has the column 'qty' as long; the source table has it as int", None),
    ("nested renamed", "lacks the field 'place.zip'", None),
    ("nested added", "has the field 'place.street', which the source table does not have", None),
]


def commit_changes(table: Table, *updates: TableUpdate) -> None:
    """Sends changes of the table's metadata to its catalog, as another program does."""
    table.catalog.commit_table(table, (), updates)


def alter(world: EvolvingWorld, how: str) -> None:
    """Changes the lake table as another program does."""
    with world.iceberg(world.info).update_schema(allow_incompatible_changes=True) as schema:
        match how:
            case "renamed":
                schema.rename_column("qty", "title")
            case "dropped" | "dropped and recreated":
                schema.delete_column("qty")
            case "added":
                schema.add_column("extra", StringType())
            case "required":
                schema.update_column("qty", required=True)
            case "retyped":
                schema.update_column("qty", field_type=LongType())
            case "nested renamed":
                schema.rename_column(("place", "zip"), "code")
            case "nested added":
                schema.add_column(("place", "street"), StringType())
    if how == "dropped and recreated":
        with world.iceberg(world.info).update_schema() as schema:
            schema.add_column("qty", IntegerType())


@pytest.mark.parametrize(("how", "message", "mend"), FOREIGN, ids=[how for how, _, _ in FOREIGN])
def test_a_change_by_another_program_is_named_and_not_followed(world: EvolvingWorld, how: str, message: str, mend: str | None) -> None:
    world.append(order(1))
    world.tier_now()
    alter(world, how)
    schemas = len(world.iceberg(world.info).metadata.schemas)
    world.change(AddColumn(pa.field("note", pa.string())))
    with pytest.raises(SchemaDrift, match=message) as caught:
        world.lake.ensure_table(world.info)
    assert caught.value.ids.get("mend") == mend
    assert len(world.iceberg(world.info).metadata.schemas) == schemas


def test_the_same_change_in_source_and_lake_is_no_drift(world: EvolvingWorld) -> None:
    world.append(order(1))
    world.tier_now()
    alter(world, "retyped")
    world.change(ChangeType(("qty",), pa.int64()))
    world.append(order(2, qty=1 << 40))
    world.tier_now()
    world.assert_exact()


def test_a_rename_by_another_program_that_removed_former_schemas_is_named(world: EvolvingWorld) -> None:
    """The schema that the property names is gone, and that of the newest tiering commit shows the rename."""
    world.append(order(1))
    world.tier_now()
    alter(world, "retyped")
    world.change(ChangeType(("qty",), pa.int64()))
    world.append(order(2))
    world.tier_now()
    lake_table = world.iceberg(world.info)
    recorded = ColumnIds.parse(lake_table.properties[COLUMN_IDS]).schema_id
    assert recorded != lake_table.metadata.current_schema_id
    alter(world, "renamed")
    commit_changes(world.iceberg(world.info), RemoveSchemasUpdate(schema_ids=[recorded]))
    with pytest.raises(SchemaDrift, match="has the column 'qty' renamed to 'title'") as caught:
        world.lake.ensure_table(world.info)
    assert caught.value.ids["mend"] == "rename_column"


def test_a_tierer_with_older_columns_undoes_nothing(world: EvolvingWorld) -> None:
    world.append(order(1))
    world.tier_now()
    older = world.info
    world.change(RenameColumn(("qty",), "count"))
    world.lake.ensure_table(world.info)
    with pytest.raises(SourceChanged):
        world.lake.ensure_table(older)
    assert names(world)[1] == ("count", 2)


@pytest.mark.parametrize("is_cut", [False, True], ids=["whole log", "cut log"])
@pytest.mark.parametrize("changes", [(RenameColumn(("qty",), "count"),), (DropColumn(("qty",)),)], ids=["renamed", "dropped"])
def test_rows_that_another_program_rewrote_after_a_change_are_proved(
    tmp_path: Path, kind: LakeKind, changes: tuple[SchemaChange, ...], is_cut: bool
) -> None:
    world = EvolvingWorld(tmp_path, kind, pa.schema([ORDERS.field("id"), ORDERS.field("qty")]))
    world.append({"id": 1, "qty": 1}, {"id": 2, "qty": 2})
    world.tier_now()
    world.change(*changes)
    world.append({"id": 3, "count": 3})
    world.tier_now()
    rewrite_by_hand(world.lake_properties, world.path)
    if is_cut:
        world.cut_log()
    world.assert_exact()
