"""A column added at the source comes to the lake once, with the next round, also in a race, and rows before it are NULL."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, DoubleType, LongType, NestedField, StringType

from tiering.errors import CommitOutcomeUnknown, LakeUnavailable, SchemaDrift
from tiering.lake.base import Committable, WriterInitContext
from tiering.lake.iceberg.lake import EVOLVE_ATTEMPTS, IcebergLake
from tiering.lake.iceberg.schema.evolution import update_request
from tiering.lake.iceberg.schema.following import check_drift
from tiering.lake.marker import TieredRange
from tiering.lake.rules.base_check import check_base, check_same_base
from tiering.model.tables import BucketKey, TableInfo

B0 = BucketKey(None, 0)
TAGS = pa.field("tags", pa.list_(pa.struct([pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int16())])))
CITY = pa.field("city", pa.string())


def with_columns(table: TableInfo, *columns: pa.Field[pa.DataType]) -> TableInfo:
    return replace(table, schema=pa.schema([*table.schema, *columns]))


def named(view: Any) -> list[tuple[int, str]]:
    return [(field.field_id, field.name) for field in view.handle.schema().fields]


def rows(kit: Any, table: TableInfo, start: int, stop: int) -> pa.RecordBatch:
    """Records of bucket 0 with values in every added column."""
    base = kit.rows(kit.table(), B0, start, stop)
    values = {"city": [f"city {n}" for n in range(start, stop)], "tags": [[{"k": "a", "v": n}] for n in range(start, stop)]}
    schema = table.lake_schema()
    arrays = [pa.array(values[field.name], field.type) if field.name in values else base.column(field.name) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def prepare(kit: Any, table: TableInfo, round_id: str, stop: int, view: Any = None) -> Any:
    """Prepares a commit like `LakeKit.prepare`, for a table that got more columns."""
    prepared = kit.prepare(table, round_id, {}, view=view)
    start = prepared.base.marker.buckets[B0].tiered if prepared.base.marker else 0
    writer = prepared.factory.create_writer(WriterInitContext(table, prepared.base.table_uuid, B0, None, round_id, f"n-{round_id}"))
    writer.write(rows(kit, table, start, stop))
    marker = replace(prepared.marker, buckets={B0: TieredRange(0, stop)})
    return replace(prepared, committable=Committable(round_id, (writer.complete(start, stop),)), marker=marker)


def test_an_added_column_comes_before_the_system_columns_and_leaves_head_and_tag_alone(kit: Any) -> None:
    table = kit.table()
    base = check_base(kit.tier(table, "r1", {B0: 10}), kit.known(table))
    view = kit.lake.ensure_table(with_columns(table, CITY, TAGS))
    assert named(view) == [
        (1, "id"),
        (2, "name"),
        (3, "small"),
        (7, "city"),
        (8, "tags"),
        (4, "__bucket"),
        (5, "__offset"),
        (6, "__timestamp"),
    ]
    assert view.handle.schema().find_field("tags.element.v").field_id == 11
    assert check_same_base(base, view, kit.known(table)).view is view
    assert (view.head, view.tiered) == (base.view.head, base.view.tiered)


def test_rows_before_an_added_column_are_null_in_every_reader(kit: Any) -> None:
    table = kit.table()
    kit.tier(table, "r1", {B0: 3})
    more = with_columns(table, CITY, TAGS)
    prepare(kit, more, "r2", 6).commit()
    expected = [None] * 3 + [f"city {n}" for n in range(3, 6)]
    iceberg = kit.catalog().load_table(str(table.path))
    scanned = iceberg.scan().to_arrow().sort_by("__offset")
    assert scanned["city"].to_pylist() == expected
    assert scanned["tags"].to_pylist() == [None] * 3 + [[{"k": "a", "v": n}] for n in range(3, 6)]
    assert iceberg.scan(row_filter="city is null").to_arrow().num_rows == 3
    files = iceberg.inspect.files()["file_path"].to_pylist()
    with duckdb.connect() as connection:
        read = connection.execute("SELECT city, tags FROM read_parquet(?, union_by_name => true) ORDER BY __offset", [files]).fetchall()
    assert [row[0] for row in read] == expected
    assert [row[1] for row in read] == scanned["tags"].to_pylist()


def test_the_round_before_an_added_column_and_the_one_after_form_one_chain(kit: Any) -> None:
    table = kit.table()
    kit.tier(table, "r1", {B0: 3})
    prepare(kit, with_columns(table, CITY), "r2", 6).commit()
    view = kit.view(table)
    assert (view.marker.base_round_id, view.tiered) == ("r1", view.head)
    assert kit.offsets_in_lake(table) == [(0, offset) for offset in range(6)]


def test_rounds_that_add_a_column_at_once_end_with_one(kit: Any) -> None:
    table = kit.table()
    kit.lake.ensure_table(table)
    gate, views, failed = threading.Barrier(4), [], []

    def add() -> None:
        lake = IcebergLake(kit.properties)
        gate.wait()
        try:
            views.append(named(lake.ensure_table(with_columns(table, CITY))))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert views == [views[0]] * 4
    assert [name for _, name in views[0]].count("city") == 1
    assert len(kit.view(table).handle.metadata.schemas) == 2


@pytest.mark.parametrize("lands", [True, False], ids=["landed", "lost"])
def test_an_answer_that_is_lost_means_that_the_table_is_read_again(kit: Any, observed: Any, lands: bool) -> None:
    table = kit.table()
    kit.lake.ensure_table(table)
    broken = observed(kit.lake._open(), TimeoutError("no answer"), lands=lands)
    kit.lake._catalog = broken
    if lands:
        assert (7, "city") in named(kit.lake.ensure_table(with_columns(table, CITY)))
        assert len(broken.requests) == 1
    else:
        with pytest.raises(LakeUnavailable, match="no answer"):
            kit.lake.ensure_table(with_columns(table, CITY))
        assert len(broken.requests) == EVOLVE_ATTEMPTS


def test_a_late_request_for_a_column_that_came_meanwhile_is_refused(kit: Any) -> None:
    table = kit.table()
    old = kit.lake.ensure_table(table).handle
    request = update_request(old.metadata, check_drift(with_columns(table, CITY), old.metadata))
    kit.lake.ensure_table(with_columns(table, CITY))
    with pytest.raises(CommitFailedException):
        kit.catalog().commit_table(old, *request)
    assert [name for _, name in named(kit.view(table))].count("city") == 1


def test_an_added_column_that_is_not_nullable_is_refused_by_name(kit: Any) -> None:
    table = kit.table()
    kit.lake.ensure_table(table)
    with pytest.raises(SchemaDrift, match="NOT NULL") as caught:
        kit.lake.ensure_table(with_columns(table, pa.field("city", pa.string(), nullable=False)))
    assert caught.value.ids["column"] == "city"
    assert "CALL sys.reconcile_lake('sales.orders', 'retier')" in caught.value.hint, "story 312 of iceberg-system-columns was stuck"
    assert "city" not in dict(map(reversed, named(kit.view(table))))  # type: ignore[arg-type]


def test_a_lake_table_of_another_source_table_is_not_changed(kit: Any) -> None:
    """The base check refuses it after this: it must find it as it was."""
    table = kit.table()
    kit.tier(table, "r1", {B0: 3})
    view = kit.lake.ensure_table(replace(with_columns(table, CITY), table_id=8))
    assert len(view.handle.metadata.schemas) == 1


# --- changes by others


def alter(kit: Any, table: TableInfo, how: str) -> None:
    iceberg = kit.catalog().load_table(str(table.path))
    with iceberg.update_schema(allow_incompatible_changes=True) as schema:
        match how:
            case "renamed":
                schema.rename_column("name", "title")
            case "dropped":
                schema.delete_column("name")
            case "nested added":
                schema.add_column(("address", "street"), StringType())
            case "nested dropped":
                schema.delete_column(("address", "zip"))
            case "nested renamed":
                schema.rename_column(("address", "zip"), "code")
            case "nested retyped":
                schema.update_column(("address", "zip"), field_type=LongType())
            case "nested required":
                schema.update_column(("address", "zip"), required=True)
            case "element retyped":
                schema.update_column(("scores", "element"), field_type=DoubleType())
            case "value required":
                schema.update_column(("by_day", "value"), required=True)


NESTED = (
    pa.field("address", pa.struct([("zip", pa.int32()), ("city", pa.string())])),
    pa.field("scores", pa.list_(pa.float32())),
    pa.field("by_day", pa.map_(pa.string(), pa.int64())),
)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("renamed", "has the column 'name' renamed to 'title'"),
        ("dropped", "lacks the column 'name', which it had before"),
        ("nested added", "has the field 'address.street', which the source table does not have"),
        ("nested dropped", "lacks the field 'address.zip'"),
        ("nested renamed", "lacks the field 'address.zip'"),
        ("nested retyped", "has the column 'address.zip' as long; the source table has it as int"),
        ("nested required", "requires values in the column 'address.zip'"),
        ("element retyped", "has the column 'scores.element' as double; the source table has it as float"),
        ("value required", "requires values in the column 'by_day.value'"),
    ],
)
def test_a_change_by_another_program_is_named_and_nothing_is_added(kit: Any, how: str, message: str) -> None:
    table = with_columns(kit.table(), *NESTED)
    kit.lake.ensure_table(table)
    alter(kit, table, how)
    schemas = len(kit.view(table).handle.metadata.schemas)
    with pytest.raises(SchemaDrift, match=message) as caught:
        kit.lake.ensure_table(with_columns(table, CITY))
    assert caught.value.ids["column"] in ("name", "address", "scores", "by_day")
    assert len(kit.view(table).handle.metadata.schemas) == schemas


@pytest.mark.parametrize(
    ("source", "lake"),
    [
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.decimal128(9, 2), pa.decimal128(12, 2)),
        (pa.list_(pa.int32()), pa.list_(pa.int64())),
        (pa.struct([("zip", pa.int32())]), pa.struct([("zip", pa.int64())])),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64())),
    ],
    ids=str,
)
def test_a_hint_names_no_mend_for_a_column_that_was_widened(kit: Any, source: pa.DataType, lake: pa.DataType) -> None:
    """Iceberg takes no wider type back. A narrower one can be widened."""
    hints = []
    for number, (in_lake, in_source) in enumerate([(lake, source), (source, lake)]):
        table = kit.table(f"orders_{number}")
        kit.lake.ensure_table(with_columns(table, pa.field("value", in_lake)))
        with pytest.raises(SchemaDrift, match="has the column 'value") as caught:
            kit.lake.ensure_table(with_columns(table, pa.field("value", in_source)))
        hints.append(caught.value.hint)
    assert "Mend" not in hints[0]
    assert "Rename the lake table sales.orders_0" in hints[0]
    assert "Repair the lake table" in hints[1]


def test_a_dropped_column_whose_schema_was_cleaned_up_is_not_taken_for_a_new_one(kit: Any) -> None:
    """The old values of the column would be lost silently: a new column has a new field id."""
    table = kit.table()
    kit.lake.ensure_table(table)
    alter(kit, table, "dropped")
    forget_former_schemas(kit, table)
    with pytest.raises(SchemaDrift, match="does not show whether it had the column before") as caught:
        kit.lake.ensure_table(table)
    assert caught.value.ids["column"] == "name"


def forget_former_schemas(kit: Any, table: TableInfo) -> None:
    """Removes former schemas like Spark's expire_snapshots with clean_expired_metadata."""
    view = kit.view(table)
    location = view.handle.metadata_location.removeprefix("file://")
    with open(location) as file:
        document = json.load(file)
    document["schemas"] = [schema for schema in document["schemas"] if schema["schema-id"] == document["current-schema-id"]]
    with open(location, "w") as file:
        json.dump(document, file)


@pytest.mark.parametrize("how", ["dropped and recreated", "renamed", "required"])
def test_files_that_were_written_before_a_column_changed_are_not_committed(kit: Any, how: str) -> None:
    table = kit.table()
    base = kit.tier(table, "r1", {B0: 10})
    prepared = kit.prepare(table, "r2", {B0: 20}, view=base)
    with kit.catalog().load_table(str(table.path)).update_schema(allow_incompatible_changes=True) as schema:
        if how == "renamed":
            schema.rename_column("name", "title")
        elif how == "required":
            schema.update_column("name", required=True)
        else:
            schema.delete_column("name")
    if how == "dropped and recreated":
        with kit.catalog().load_table(str(table.path)).update_schema() as schema:
            schema.add_column("name", StringType())
    with pytest.raises(CommitOutcomeUnknown):
        prepared.commit()
    with pytest.raises(SchemaDrift, match="'name'"):
        prepared.commit(kit.view(table))
    assert kit.view(table).head == base.head


@pytest.mark.parametrize("how", ["dropped", "renamed", "swapped"])
def test_a_column_made_anew_is_not_taken_for_the_one_whose_values_it_hides(kit: Any, how: str) -> None:
    """The rows that are there would have other values than were tiered; dropping what is left of the column would lose them."""
    table = with_columns(kit.table(), CITY)
    kit.lake.ensure_table(table)
    prepare(kit, table, "r1", 10).commit()
    steps: dict[str, list[tuple[str, str]]] = {
        "dropped": [("name", "")],
        "renamed": [("name", "title")],
        "swapped": [("name", "title"), ("city", "name"), ("title", "city")],
    }
    for column, renamed in steps[how]:
        with kit.catalog().load_table(str(table.path)).update_schema() as schema:
            schema.rename_column(column, renamed) if renamed else schema.delete_column(column)
    if how != "swapped":
        with kit.catalog().load_table(str(table.path)).update_schema() as schema:
            schema.add_column("name", StringType())
    with pytest.raises(SchemaDrift, match=r"has another column '(name|city)' than the one of the last round") as caught:
        kit.lake.ensure_table(table)
    assert "mend" not in caught.value.ids


def test_a_column_that_got_its_name_back_is_the_one_it_was(kit: Any) -> None:
    table = kit.table()
    kit.tier(table, "r1", {B0: 10})
    for column, renamed in (("name", "title"), ("title", "name")):
        with kit.catalog().load_table(str(table.path)).update_schema() as schema:
            schema.rename_column(column, renamed)
    kit.tier(table, "r2", {B0: 20})
    assert kit.offsets_in_lake(table) == [(0, offset) for offset in range(20)]


def test_files_that_were_written_before_a_column_was_added_are_committed_after_it(kit: Any) -> None:
    table = kit.table()
    base = kit.tier(table, "r1", {B0: 10})
    prepared = kit.prepare(table, "r2", {B0: 20}, view=base)
    with kit.catalog().load_table(str(table.path)).update_schema() as schema:
        schema.add_column("by_hand", DateType())
    prepared.commit(kit.view(table))
    assert kit.offsets_in_lake(table) == [(0, offset) for offset in range(20)]


def test_a_new_schema_keeps_the_order_and_the_ids_that_the_lake_has(kit: Any) -> None:
    table = kit.table()
    metadata = kit.lake.ensure_table(table).handle.metadata
    _, (add, _) = update_request(metadata, check_drift(with_columns(table, CITY), metadata))
    assert isinstance(add.schema_, Schema)
    kept = [field for field in add.schema_.fields if field.name != "city"]
    assert kept == list(metadata.schema().fields)
    assert add.schema_.find_field("city") == NestedField(7, "city", StringType(), required=False)
