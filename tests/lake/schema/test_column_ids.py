"""A lake table's columns follow those of its source by field id, whatever the changes and however many at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.clusters.memory_cluster import log_table
from support.values.schemas import change_of, types
from tiering.errors import InvalidArgument, SchemaDrift, SourceChanged
from tiering.lake.schema.column_ids import (
    ColumnIds,
    FollowedColumns,
    followed_columns,
    ids_of_table,
    lake_columns_of_source,
    proof_columns,
    same_fields,
)
from tiering.model.schema.changes import (
    AddColumn,
    After,
    ChangeComment,
    ChangeType,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SchemaChange,
    changed_schema,
)
from tiering.model.schema.field_ids import FIELD_ID, all_fields, children, comment, field_id, with_children, with_field_ids, with_metadata
from tiering.model.schema.row_conversion import converted_rows


def schema(**columns: pa.DataType) -> pa.Schema:
    return with_field_ids(pa.schema([pa.field(name, kind) for name, kind in columns.items()]))


def lake_type(kind: pa.DataType) -> pa.DataType:
    """Iceberg's rule: it has no small integers."""
    return pa.int32() if kind in (pa.int8(), pa.int16()) else kind


def created(source: pa.Schema, first_id: int) -> pa.Schema:
    """A new lake table's columns, whose ids begin with `first_id`."""

    def field_of(field: pa.Field[Any]) -> pa.Field[Any]:
        nested = [field_of(inner) for inner in children(field.type)]
        kind = with_children(field.type, nested) if nested else lake_type(field.type)
        return with_metadata(field.with_type(kind), {FIELD_ID: str((field_id(field) or 0) + first_id - 1)})

    return pa.schema([field_of(field) for field in source])


def names(kind: pa.Schema | pa.DataType) -> list[str]:
    return [field.name for field in children(kind)]


class Lake:
    """A lake table in memory: its columns, the property, and a row by field ids."""

    def __init__(self, source: pa.Schema, *, keep_dropped: bool = True) -> None:
        self.columns = created(source, 101)
        self.recorded: ColumnIds | None = same_fields(replace(log_table(), schema=source), self.columns)
        self.last_id = max(field_id(field) or 0 for field in all_fields(self.columns))
        self._keep_dropped = keep_dropped

    def follow(self, source: pa.Schema) -> FollowedColumns:
        followed = followed_columns(source, self.columns, self.recorded, self.last_id, lake_type, keep_dropped=self._keep_dropped)
        assert followed.misfit is None
        assert not followed.extras
        self.columns, self.recorded = followed.columns, ColumnIds(0, followed.pairs, 0, followed.proof_names)
        self.last_id = max([self.last_id, *(field_id(field) or 0 for field in all_fields(self.columns))])
        return followed


ORDERS = schema(id=pa.int64(), qty=pa.int16(), place=pa.struct([("city", pa.string()), ("zip", pa.int32())]))


def after(*changes: SchemaChange, source: pa.Schema = ORDERS) -> pa.Schema:
    return changed_schema(source, changes)


def test_a_renamed_column_is_renamed_and_keeps_its_id() -> None:
    lake = Lake(ORDERS)
    followed = lake.follow(after(RenameColumn(("qty",), "quantity"), RenameColumn(("place", "zip"), "code")))
    assert followed.changes == ("rename qty to quantity", "rename place.zip to code")
    assert [field_id(field) for field in followed.columns] == [101, 102, 103]
    assert names(followed.columns.field("place").type) == ["city", "code"]


def test_two_columns_exchange_their_names() -> None:
    lake = Lake(ORDERS)
    lake.follow(after(RenameColumn(("id",), "x"), RenameColumn(("qty",), "id"), RenameColumn(("x",), "qty")))
    assert [(field.name, field_id(field)) for field in lake.columns][:2] == [("qty", 101), ("id", 102)]


def test_a_dropped_column_stays_nullable_behind_the_others() -> None:
    source = with_field_ids(pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.int64())]))
    lake = Lake(source)
    lake.follow(after(DropColumn(("a",)), source=source))
    assert [(field.name, field.nullable) for field in lake.columns] == [("b", True), ("a", True)]


def test_a_dropped_column_is_dropped_where_the_table_says_so() -> None:
    lake = Lake(ORDERS, keep_dropped=False)
    lake.follow(after(DropColumn(("qty",)), DropColumn(("place", "city"))))
    assert names(lake.columns) == ["id", "place"]
    assert names(lake.columns.field("place").type) == ["zip"]


@pytest.mark.parametrize("keep", [True, False])
def test_a_name_that_is_used_again_is_another_column(keep: bool) -> None:
    lake = Lake(ORDERS, keep_dropped=keep)
    lake.follow(after(DropColumn(("qty",)), AddColumn(pa.field("QTY", pa.string()), (), After("id"))))
    assert names(lake.columns) == ["id", "QTY", "place", *(["qty_dropped_102"] if keep else [])]
    assert field_id(lake.columns.field("QTY")) not in (None, 102)


def test_a_kept_column_gets_a_name_that_no_other_column_has() -> None:
    lake = Lake(ORDERS)
    source = after(DropColumn(("qty",)), AddColumn(pa.field("qty", pa.string())), AddColumn(pa.field("qty_Dropped_102", pa.int32())))
    lake.follow(source)
    assert names(lake.columns) == ["id", "place", "qty", "qty_Dropped_102", "qty_dropped_102_dropped_102"]
    source = after(DropColumn(("qty",)), DropColumn(("qty_Dropped_102",)), AddColumn(pa.field("QTY", pa.int8())), source=source)
    lake.follow(source)
    folded = [name.lower() for name in names(lake.columns)]
    assert len(folded) == len(set(folded)) == 6


def test_a_kept_column_is_still_kept_after_further_changes() -> None:
    lake = Lake(ORDERS)
    source = after(DropColumn(("qty",)))
    lake.follow(source)
    assert lake.follow(source).changes == ()
    assert names(lake.follow(after(AddColumn(pa.field("new", pa.int32())), source=source)).columns) == ["id", "place", "new", "qty"]


def test_types_comments_and_the_order_follow() -> None:
    lake = Lake(ORDERS)
    followed = lake.follow(after(ChangeType(("qty",), pa.int32()), MoveColumn(("place",), After(None)), ChangeComment(("id",), "number")))
    assert followed.changes == ("change the comment of id", "reorder the columns")  # Iceberg's type of qty is an int before and after
    assert comment(followed.columns.field("id")) == "number"
    widened = lake.follow(after(ChangeType(("qty",), pa.int64()), MoveColumn(("place",), After(None)), ChangeComment(("id",), None)))
    assert widened.changes == ("change the comment of id", "change qty from int32 to int64")


def test_an_order_that_a_user_gave_the_lake_table_stays() -> None:
    lake = Lake(ORDERS)
    lake.columns = pa.schema([lake.columns.field(name) for name in ("place", "id", "qty")])
    assert lake.follow(ORDERS).changes == ()
    assert names(lake.follow(after(AddColumn(pa.field("new", pa.int32()), (), After(None)))).columns) == ["place", "id", "qty", "new"]


def test_a_lake_table_of_an_older_version_is_matched_by_first_names() -> None:
    lake = Lake(ORDERS)
    lake.recorded = None
    source = after(RenameColumn(("qty",), "old"), AddColumn(pa.field("qty", pa.string())))
    lake.follow(source)
    assert [(field.name, field_id(field)) for field in lake.columns][:3] == [("id", 101), ("old", 102), ("place", 103)]
    assert lake.recorded is not None


def test_a_source_without_ids_is_matched_by_name() -> None:
    plain = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string())])
    lake = created(with_field_ids(pa.schema([pa.field("a", pa.int64())])), 1)
    followed = followed_columns(plain, lake, None, 1, lake_type)
    assert (followed.changes, followed.pairs, followed.misfit) == (("add b",), (), None)
    assert lake_columns_of_source(plain, lake, None).field("a").metadata == {}


MISFITS: list[tuple[pa.Schema, str]] = [
    (schema(id=pa.string()), "has the column 'id' as int64; the source table has it as string"),
    (schema(id=pa.list_(pa.int64())), "has the column 'id' as int64"),
    (schema(id=pa.int32()), "has the column 'id' as int64; the source table has it as int32"),
]


@pytest.mark.parametrize(("source", "difference"), MISFITS, ids=[difference for _, difference in MISFITS])
def test_what_a_lake_cannot_follow_names_the_column(source: pa.Schema, difference: str) -> None:
    lake = created(schema(id=pa.int64()), 101)
    misfit = followed_columns(source, lake, ColumnIds(0, ((1, 101),)), 101, lake_type).misfit
    assert misfit is not None
    assert difference in misfit[1]


def test_changes_of_another_writer_are_named() -> None:
    lake = Lake(ORDERS)
    renamed = pa.schema([field.with_name("count") if field.name == "qty" else field for field in lake.columns])
    followed = followed_columns(ORDERS, renamed, lake.recorded, lake.last_id, lake_type, recorded_lake=lake.columns)
    assert followed.misfit == ("qty", "has the column 'qty' renamed to 'count'")
    dropped = pa.schema([lake.columns.field("id"), lake.columns.field("place")])
    misfit = followed_columns(ORDERS, dropped, lake.recorded, lake.last_id, lake_type).misfit
    assert misfit == ("qty", "lacks the column 'qty', which it had before: it was dropped")
    extra = pa.schema([*lake.columns, with_metadata(pa.field("extra", pa.string()), {FIELD_ID: "999"})])
    assert followed_columns(ORDERS, extra, lake.recorded, 999, lake_type).extras == ("extra",)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_lake_follows_any_sequence_of_changes(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(types(), min_size=1, max_size=4))
    source = schema(**{f"c{place}": kind for place, kind in enumerate(kinds)})
    keep = data.draw(st.booleans())
    lake = Lake(source, keep_dropped=keep)
    if data.draw(st.booleans()):
        lake.recorded = None
        lake.follow(source)
    number, proof_names = 0, proof_names_of(lake)
    for _ in range(data.draw(st.integers(1, 4))):
        former_ids = {field_id(field) for field in all_fields(source)}
        for _ in range(data.draw(st.integers(0, 4))):
            number += 1
            try:
                source = changed_schema(source, [data.draw(change_of(source, number))])
            except InvalidArgument:
                continue
        _check_reading(source, lake, {number for number in former_ids if number is not None})
        before = {field_id(field) for field in all_fields(lake.columns)}
        lake.follow(source)
        assert lake.follow(source).changes == ()
        lake_ids = [field_id(field) for field in all_fields(lake.columns)]
        assert len(set(lake_ids)) == len(lake_ids)
        assert not keep or before <= set(lake_ids)
        assert lake.recorded is not None
        assert ColumnIds.parse(lake.recorded.text()) == lake.recorded
        kept_names = {number: name for number, name in proof_names.items() if number in proof_names_of(lake)}
        proof_names = proof_names_of(lake)
        assert kept_names.items() <= proof_names.items()
        for kind in [lake.columns, *(field.type for field in all_fields(lake.columns))]:
            folded = [name.lower() for name in names(kind)]
            assert len(set(folded)) == len(folded)
        assert [path for path in names(source) if path not in names(lake.columns)] == []


def proof_names_of(lake: Lake) -> dict[int | None, str]:
    """The names in checksums by field id. No struct has one twice."""
    columns = proof_columns(lake.columns, lake.recorded)
    for kind in [columns, *(field.type for field in all_fields(columns))]:
        assert len(set(names(kind))) == len(names(kind))
    return {field_id(field): field.name for field in all_fields(columns)}


def test_the_name_in_checksums_stays_and_is_never_given_again() -> None:
    lake = Lake(ORDERS)
    source = after(RenameColumn(("qty",), "count"), AddColumn(pa.field("qty", pa.string())), RenameColumn(("place", "zip"), "code"))
    lake.follow(source)
    assert names(lake.columns) == ["id", "count", "place", "qty"]
    assert names(proof_columns(lake.columns, lake.recorded)) == ["id", "qty", "place", f"qty#{field_id(lake.columns.field('qty'))}"]
    assert names(proof_columns(lake.columns, lake.recorded).field("place").type) == ["city", "zip"]
    assert lake.recorded is not None
    assert ColumnIds.parse(lake.recorded.text()) == lake.recorded


def _check_reading(source: pa.Schema, lake: Lake, former_ids: set[int]) -> None:
    """A reader of the lake before it followed sees each field that it has under the source's present name."""
    columns = lake_columns_of_source(source, lake.columns, lake.recorded)
    empty = pa.RecordBatch.from_pylist([], schema=columns)
    assert converted_rows(empty, columns, source).schema.equals(source)
    present = {field_id(field) for field in all_fields(columns)}
    assert {field_id(field) for field in all_fields(source)} & former_ids <= present


def test_a_text_that_is_not_the_property_is_refused() -> None:
    for text in ("", "1", "0/0;1:1", "x/0/1;1:1", "0/0/1;1:1,", "0/0/1;1:1*", "0/0/1;-1:1", "0/0/1;1:1;", "0/0/1;1:1;{1}"):
        with pytest.raises(SchemaDrift):
            ColumnIds.parse(text)
    assert ColumnIds.parse("3/7/9;") == ColumnIds(3, (), 7, table_id=9)


def test_an_older_schema_of_the_source_does_not_undo_what_the_lake_follows() -> None:
    recorded = ColumnIds.parse("2/5/1;1:1*12,14:20")
    assert recorded.text() == "2/5/1;1:1*12,14:20"
    recorded.check_source(replace(log_table(), schema_id=5))
    with pytest.raises(SourceChanged, match="follows the columns of the source's schema 5, but this round was planned with its schema 4"):
        recorded.check_source(replace(log_table(), schema_id=4))


def test_the_ids_of_a_table_that_was_created_again_do_not_count() -> None:
    recorded = ColumnIds.parse("2/5/1;1:1*12")
    assert ids_of_table(recorded, log_table(1)) is recorded
    assert ids_of_table(recorded, log_table(2)) is None
    assert ids_of_table(None, log_table(1)) is None


def test_a_type_that_the_lake_holds_as_it_is_stays() -> None:
    source, lake = schema(at=pa.timestamp("us")), created(schema(at=pa.timestamp("ms")), 1)
    recorded = same_fields(replace(log_table(), schema=source), lake)
    assert followed_columns(source, lake, recorded, 1, lake_type).misfit is not None
    followed = followed_columns(source, lake, recorded, 1, lake_type, holds_type=lambda former, target: former.id == target.id)
    assert (followed.misfit, followed.changes, followed.columns) == (None, (), lake)
