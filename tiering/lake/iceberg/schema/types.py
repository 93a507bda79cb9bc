"""Converts Arrow types to Iceberg types and back. They define what a lake table can hold (DESIGN 12). Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pyarrow as pa
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from tiering.errors import InvalidName, UnsupportedType
from tiering.lake.column_names import folded_name
from tiering.lake.file_lists import FIELD_ID_KEY as FIELD_ID_KEY
from tiering.model.schema.field_ids import comment

MAX_DECIMAL_PRECISION = 38
"""Iceberg's limit (spec, "Primitive Types")."""


_FLAT: dict[pa.DataType, PrimitiveType] = {
    pa.bool_(): BooleanType(),
    pa.int8(): IntegerType(),
    pa.int16(): IntegerType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.large_string(): StringType(),
    pa.binary(): BinaryType(),
    pa.large_binary(): BinaryType(),
    pa.date32(): DateType(),
}
_ARROW: dict[PrimitiveType, pa.DataType] = {
    BooleanType(): pa.bool_(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    FloatType(): pa.float32(),
    DoubleType(): pa.float64(),
    StringType(): pa.string(),
    BinaryType(): pa.binary(),
    DateType(): pa.date32(),
    TimestampType(): pa.timestamp("us"),
    TimestamptzType(): pa.timestamp("us", tz="UTC"),
}
_HINT = (
    "A lake table holds boolean, int8 to int64, float, double, decimal up to 38 digits, string, binary, date, timestamp in microseconds "
    "with or without a zone, and lists, maps and structs of these."
)


def iceberg_type(column: str, kind: pa.DataType, next_id: Callable[[], int]) -> IcebergType:
    """Returns the lake's type for a column. `next_id` numbers nested fields. Raises UnsupportedType or InvalidName with column and type."""
    if kind in _FLAT:
        return _FLAT[kind]
    if isinstance(kind, pa.TimestampType) and kind.unit != "ns":
        return TimestampType() if kind.tz is None else TimestamptzType()
    if isinstance(kind, pa.Decimal128Type) and 0 <= kind.scale <= kind.precision <= MAX_DECIMAL_PRECISION:
        return DecimalType(kind.precision, kind.scale)
    if isinstance(kind, pa.ListType | pa.LargeListType):
        element = kind.value_field
        return ListType(next_id(), iceberg_type(column, element.type, next_id), element_required=not element.nullable)
    if isinstance(kind, pa.MapType):
        key, value = next_id(), next_id()
        return MapType(
            key,
            iceberg_type(column, kind.key_type, next_id),
            value,
            iceberg_type(column, kind.item_type, next_id),
            value_required=not kind.item_field.nullable,
        )
    if isinstance(kind, pa.StructType):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        _check_field_names(column, kind, [field.name for field in fields])
        return StructType(
            *(
                NestedField(
                    next_id(), field.name, iceberg_type(column, field.type, next_id), required=not field.nullable, doc=comment(field)
                )
                for field in fields
            )
        )
    raise UnsupportedType(f"column {column!r} has type {kind}, which a lake table cannot hold", hint=_HINT, column=column, type=kind)


def _check_field_names(column: str, kind: pa.StructType, names: list[str]) -> None:
    """Checks the fields of a struct. Parquet has no empty struct, pyiceberg finds a field by its dotted path, and Spark ignores case."""
    if not names:
        raise UnsupportedType(f"column {column!r} has a struct without fields, which a lake table cannot hold", column=column, type=kind)
    folded = [folded_name(name) for name in names]
    for name in names:
        if not name or "." in name:
            raise InvalidName(
                f"column {column!r} has a field named {name!r}", hint="Rename it: not empty, and without a dot.", column=column
            )
        if folded.count(folded_name(name)) > 1:
            raise InvalidName(
                f"column {column!r} has two fields named {name!r}", hint="Names are compared without regard to case.", column=column
            )


def arrow_type(kind: IcebergType) -> pa.DataType:
    """Returns the Arrow type in which a lake column is written, including field ids of nested fields."""
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, ListType):
        return pa.list_(arrow_field(kind.element_field))
    if isinstance(kind, MapType):
        # pyarrow takes fields here, as its documentation says, but its stubs only have types.
        return cast(pa.DataType, cast(Any, pa).map_(arrow_field(kind.key_field), arrow_field(kind.value_field)))
    if isinstance(kind, StructType):
        return pa.struct([arrow_field(field) for field in kind.fields])
    if isinstance(kind, PrimitiveType) and kind in _ARROW:
        return _ARROW[kind]
    raise UnsupportedType(f"the lake type {kind} is not one that Lakeward writes", hint=_HINT, type=kind)


def arrow_field(field: NestedField) -> pa.Field[pa.DataType]:
    """Returns the Arrow field of a lake column, with its Iceberg field id for the Parquet file."""
    return pa.field(
        field.name, arrow_type(field.field_type), nullable=field.optional, metadata={FIELD_ID_KEY: str(field.field_id).encode()}
    )
