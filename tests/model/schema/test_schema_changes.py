"""Changes of a table's columns keep ids, refuse what would lose a value, and rows of a former schema become rows of the new one."""

from __future__ import annotations

from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.values.schemas import PLAIN_VALUES, WIDER_TYPES, change_of, types, values
from tiering.errors import InvalidArgument
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
    can_widen,
    changed_schema,
)
from tiering.model.schema.field_ids import (
    COMMENT,
    FIELD_ID,
    all_fields,
    children,
    comment,
    field_id,
    first_name,
    with_children,
    with_field_ids,
    with_metadata,
)
from tiering.model.schema.row_conversion import converted_rows, has_same_values

ADDRESS = pa.struct([("street", pa.string()), ("floor", pa.int16())])
ORDERS = with_field_ids(
    pa.schema(
        [  # type: ignore[arg-type]  # the stubs join the types of the fields to object
            pa.field("id", pa.int64(), nullable=False),
            pa.field("qty", pa.int32(), nullable=False),
            pa.field("address", ADDRESS),
            pa.field("lines", pa.list_(pa.struct([("sku", pa.string()), ("price", pa.decimal128(8, 2))]))),
            pa.field("notes", pa.map_(pa.string(), pa.float32())),
        ]
    )
)


def ids(schema: pa.Schema) -> dict[str, int]:
    return {name: field_id(schema.field(name)) or 0 for name in schema.names}


def test_columns_are_numbered_before_nested_fields() -> None:
    assert ids(ORDERS) == {"id": 1, "qty": 2, "address": 3, "lines": 4, "notes": 5}
    assert [field_id(field) for field in children(ORDERS.field("address").type)] == [6, 7]


def test_a_renamed_column_keeps_its_id_and_its_first_name() -> None:
    changed = changed_schema(ORDERS, [RenameColumn(("qty",), "count"), RenameColumn(("count",), "quantity")])
    assert ids(changed)["quantity"] == 2
    assert first_name(changed.field("quantity")) == "qty"


def test_a_column_that_is_dropped_and_added_again_is_another_column() -> None:
    last = max(field_id(field) or 0 for field in all_fields(ORDERS))
    dropped = changed_schema(ORDERS, [DropColumn(("notes",))])
    added = changed_schema(dropped, [AddColumn(pa.field("notes", pa.string()))])
    assert ids(added)["notes"] == last + 1


def test_ids_of_the_caller_are_not_taken_over() -> None:
    forged = with_metadata(pa.field("new", pa.struct([with_metadata(pa.field("a", pa.int32()), {FIELD_ID: "1"})])), {FIELD_ID: "2"})
    numbers = [field_id(field) for field in all_fields(changed_schema(ORDERS, [AddColumn(forged)]))]
    assert len(set(numbers)) == len(numbers)


def test_columns_are_added_moved_and_described_where_they_shall_be() -> None:
    changed = changed_schema(
        ORDERS,
        [
            AddColumn(with_metadata(pa.field("city", pa.string()), {COMMENT: "where"}), ("address",), After(None)),
            AddColumn(pa.field("tax", pa.float32()), ("lines", "element"), After("sku")),
            MoveColumn(("notes",), After("id")),
            MoveColumn(("address", "floor"), After(None)),
            ChangeComment(("id",), "number of the order"),
            DropNotNull(("qty",)),
        ],
        key_columns=["id"],
    )
    assert changed.names == ["id", "notes", "qty", "address", "lines"]
    assert [field.name for field in children(changed.field("address").type)] == ["floor", "city", "street"]
    assert comment(children(changed.field("address").type)[1]) == "where"
    assert comment(changed.field("id")) == "number of the order"
    assert changed.field("qty").nullable
    assert comment(changed_schema(changed, [ChangeComment(("id",), None)]).field("id")) is None


REFUSED: list[tuple[SchemaChange, str]] = [
    (AddColumn(pa.field("qty", pa.int32())), "'qty' exists already"),
    (AddColumn(pa.field("QTY", pa.int32())), "'qty' exists already"),
    (AddColumn(pa.field("new", pa.int32(), nullable=False)), "NOT NULL"),
    (AddColumn(pa.field("new", pa.int32()), ("qty",)), "not a struct"),
    (AddColumn(pa.field("new", pa.int32()), ("lines",)), "not a struct"),
    (AddColumn(pa.field("new", pa.int32()), (), After("nowhere")), "no column 'nowhere'"),
    (DropColumn(("id",)), "key"),
    (DropColumn(("nowhere",)), "no column 'nowhere'"),
    (DropColumn(("lines", "element")), "only its type"),
    (RenameColumn(("id",), "number"), "key"),
    (RenameColumn(("qty",), "Notes"), "'notes' exists already"),
    (ChangeType(("id",), pa.int64()), "key"),
    (ChangeType(("qty",), pa.int16()), "INT and cannot become SMALLINT"),
    (ChangeType(("qty",), pa.float64()), "cannot become DOUBLE"),
    (ChangeType(("notes", "key"), pa.string()), "keys"),
    (ChangeType(("lines", "element", "price"), pa.decimal128(9, 3)), "cannot become DECIMAL(9,3)"),
    (DropNotNull(("id",)), "key"),
    (MoveColumn(("qty",), After("nowhere")), "no column 'nowhere'"),
    (MoveColumn(("qty",), After("qty")), "'qty' cannot be moved behind itself"),
]


@pytest.mark.parametrize(("change", "reason"), REFUSED, ids=str)
def test_what_would_lose_a_value_or_a_key_is_refused(change: SchemaChange, reason: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        changed_schema(ORDERS, [change], key_columns=["id"])
    assert reason in error.value.message


def test_the_last_column_and_the_last_field_of_a_struct_stay() -> None:
    small = with_field_ids(pa.schema([pa.field("s", pa.struct([("a", pa.int32())]))]))
    for change in (DropColumn(("s",)), DropColumn(("s", "a"))):
        with pytest.raises(InvalidArgument):
            changed_schema(small, [change])


# Random tables, rows and changes. The model is a dict from field id to value.
def by_id(value: Any, kind: pa.DataType) -> Any:
    """Returns a value with the ids of fields in place of their names."""
    if value is None:
        return None
    if isinstance(kind, pa.StructType):
        return {field_id(field): by_id(value[field.name], field.type) for field in children(kind)}
    if isinstance(kind, pa.ListType):
        return [by_id(item, kind.value_type) for item in value]
    if isinstance(kind, pa.MapType):
        return [(key, by_id(item, kind.item_type)) for key, item in value]
    return value


def expected(value: Any, kind: pa.DataType) -> Any:
    """Returns `value`, which has ids in place of names, as a value of `kind`."""
    if value is None:
        return None
    if isinstance(kind, pa.StructType):
        return {field.name: expected(value.get(field_id(field)), field.type) for field in children(kind)}
    if isinstance(kind, pa.ListType):
        return [expected(item, kind.value_type) for item in value]
    if isinstance(kind, pa.MapType):
        return [(key, expected(item, kind.item_type)) for key, item in value]
    return value


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_rows_of_any_schema_become_rows_of_any_later_one(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(types(), min_size=1, max_size=4))
    former = with_field_ids(pa.schema([pa.field(f"c{place}", kind) for place, kind in enumerate(kinds)]))
    rows = data.draw(st.lists(st.fixed_dictionaries({field.name: values(field.type) for field in former}), max_size=6))
    current = former
    for number in range(data.draw(st.integers(0, 6))):
        try:
            current = changed_schema(current, [data.draw(change_of(current, number))])
        except InvalidArgument:
            continue
    numbers = [field_id(field) for field in all_fields(current)]
    assert len(set(numbers)) == len(numbers)
    batch = pa.RecordBatch.from_pylist(rows, schema=former)
    start = data.draw(st.integers(0, len(rows)))
    result = converted_rows(batch.slice(start), former, current)
    result.validate(full=True)
    assert result.schema.equals(current)
    columns = pa.struct(list(former))
    assert result.to_pylist() == [expected(by_id(row, columns), pa.struct(list(current))) for row in batch.slice(start).to_pylist()]
    if has_same_values(former, current) and not any(field.type.num_fields for field in current):
        assert [list(row.values()) for row in result.to_pylist()] == [list(row.values()) for row in batch.slice(start).to_pylist()]


WIDENINGS = [(kind, new) for kind, new in product(PLAIN_VALUES, [*PLAIN_VALUES, *WIDER_TYPES.values()]) if can_widen(kind, new)]


def test_each_type_of_the_table_of_wider_types_can_be_widened() -> None:
    assert {*WIDER_TYPES.items()} <= {*WIDENINGS}


@pytest.mark.parametrize(("kind", "new"), dict.fromkeys(WIDENINGS), ids=str)
@given(data=st.data())
def test_a_wider_type_holds_every_value(kind: pa.DataType, new: pa.DataType, data: st.DataObject) -> None:
    array = pa.array([data.draw(PLAIN_VALUES[kind])], kind)
    assert array.cast(new).cast(kind) == array


def test_fields_without_ids_are_matched_by_name() -> None:
    former = pa.schema([pa.field("a", pa.int32()), pa.field("b", pa.string())])
    current = pa.schema([pa.field("b", pa.string()), pa.field("c", pa.int64()), pa.field("a", pa.int64())])
    batch = pa.RecordBatch.from_pylist([{"a": 1, "b": "x"}], schema=former)
    assert converted_rows(batch, former, current).to_pylist() == [{"b": "x", "c": None, "a": 1}]
    with pytest.raises(ValueError, match="field ids"):
        converted_rows(batch, former, with_field_ids(current))


def test_a_type_with_other_fields_keeps_its_kind() -> None:
    for field in all_fields(ORDERS):
        if field.type.num_fields:
            assert with_children(field.type, children(field.type)).equals(field.type, check_metadata=True)


def test_the_ids_of_a_lake_table_may_begin_with_0() -> None:
    first, second = (pa.field(name, pa.int32(), metadata={FIELD_ID: str(number)}) for number, name in enumerate(("a", "b")))
    rows = pa.RecordBatch.from_pylist([{"a": 1}], schema=pa.schema([first]))
    assert converted_rows(rows, pa.schema([first]), pa.schema([first, second])).to_pylist() == [{"a": 1, "b": None}]
