"""Columns of a file in the lake's types: by field id, with every NULL where it was."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import IcebergType, ListType, LongType, MapType, NestedField, StringType, StructType, TimestampType

from tiering.lake.iceberg.primary_key.parquet_files import find_field, projected
from tiering.lake.iceberg.schema.types import arrow_field

POINT = StructType(NestedField(11, "x", LongType(), required=False), NestedField(12, "y", StringType(), required=False))
FIELDS: dict[str, tuple[IcebergType, list[Any]]] = {
    "struct": (POINT, [None, {"x": None, "y": None}, {"x": 1, "y": "a"}]),
    "list": (ListType(2, POINT, element_required=False), [None, [], [None], [{"x": 1, "y": None}], None]),
    "map": (MapType(2, StringType(), 3, POINT, value_required=False), [None, [], [("k", None)], [("k", {"x": 1, "y": "b"})], None]),
    "deep": (
        ListType(2, ListType(3, POINT, element_required=False), element_required=False),
        [None, [], [None, []], [[None], [{"x": 2, "y": "c"}]]],
    ),
}


def without_ids(kind: pa.DataType) -> pa.DataType:
    """Returns the type as another writer may leave it: without ids, and with ints where the lake now has longs."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, without_ids(field.type)) for field in kind])  # type: ignore[attr-defined]
    if pa.types.is_list(kind):
        return pa.list_(pa.field("item", without_ids(kind.value_type)))  # type: ignore[attr-defined]
    if pa.types.is_map(kind):
        return pa.map_(without_ids(kind.key_type), without_ids(kind.item_type))  # type: ignore[attr-defined]
    return pa.int32() if kind == pa.int64() else pa.large_string() if kind == pa.string() else kind


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_every_null_stays_where_it_was(name: str, cut: int) -> None:
    kind, values = FIELDS[name]
    field = NestedField(1, "c", kind, required=False)
    wanted = arrow_field(field).type
    foreign = without_ids(wanted)
    column = pa.array(values, foreign).slice(cut)
    result = projected(column, pa.field("c", foreign), field)
    assert result.type.equals(wanted, check_metadata=True)
    assert result.to_pylist() == values[cut:]
    result.validate(full=True)


def test_a_column_that_fits_is_not_copied() -> None:
    kind, values = FIELDS["deep"]
    field = NestedField(1, "c", kind, required=False)
    column = pa.array(values, arrow_field(field).type)
    assert projected(column, arrow_field(field), field) is column


def with_id(name: str, kind: pa.DataType, field_id: int) -> pa.Field[Any]:
    return pa.field(name, kind, metadata={b"PARQUET:field_id": str(field_id).encode()})


def test_fields_are_found_by_their_ids_whatever_they_are_called() -> None:
    stored = pa.struct([with_id("was_y", pa.string(), 12), with_id("x", pa.int64(), 99)])  # x was dropped and made anew since
    column = pa.array([{"was_y": "a", "x": 5}, None], stored)
    assert projected(column, pa.field("c", stored), NestedField(1, "c", POINT, required=False)).to_pylist() == [{"x": None, "y": "a"}, None]


def test_columns_are_found_by_their_names_only_in_a_file_without_ids() -> None:
    wanted = NestedField(7, "c", LongType(), required=False)
    assert find_field([pa.field("b", pa.int64()), pa.field("c", pa.int64())], wanted) == 1
    assert find_field([with_id("c", pa.int64(), 8), with_id("d", pa.int64(), 7)], wanted) == 1
    assert find_field([with_id("c", pa.int64(), 8)], wanted) is None


def test_nanoseconds_are_cut() -> None:
    column = pa.array([1_999], pa.timestamp("ns"))
    cut = projected(column, pa.field("c", column.type), NestedField(1, "c", TimestampType(), required=False))
    assert cut.cast(pa.int64()).to_pylist() == [1]
