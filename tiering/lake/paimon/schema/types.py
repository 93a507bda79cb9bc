"""The Arrow types that a Paimon table can hold, and the types in which rows are written. Pure."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa

from tiering.errors import InvalidName, UnsupportedType
from tiering.lake.column_names import folded_name

MAX_DECIMAL_PRECISION = 38
_FLAT = frozenset(
    {
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
    }
)
_HINT = (
    "A lake table holds boolean, int8 to int64, float, double, decimal up to 38 digits, string, binary, date, timestamp up to "
    "microseconds with or without a zone, and lists, maps and structs of these."
)


def lake_type(column: str, kind: pa.DataType) -> pa.DataType:
    """Returns the type in which the lake table holds a column's values, in pypaimon's terms. Raises UnsupportedType or InvalidName, naming
    the column.
    """
    if kind in _FLAT:
        return kind
    if isinstance(kind, pa.TimestampType) and kind.unit != "ns":
        return pa.timestamp(kind.unit, None if kind.tz is None else "UTC")
    if isinstance(kind, pa.Decimal128Type) and 0 <= kind.scale <= kind.precision <= MAX_DECIMAL_PRECISION:
        return kind
    if isinstance(kind, pa.ListType | pa.LargeListType):
        element = kind.value_field
        return pa.list_(pa.field("item", lake_type(column, element.type), nullable=element.nullable))
    if isinstance(kind, pa.MapType):
        value = pa.field("value", lake_type(column, kind.item_type), nullable=kind.item_field.nullable)
        key = pa.field("key", lake_type(column, kind.key_type), nullable=False)
        return cast(pa.DataType, cast(Any, pa).map_(key, value))  # pyarrow accepts fields here, but its stubs know only types
    if isinstance(kind, pa.StructType):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        _check_field_names(column, kind, [field.name for field in fields])
        return pa.struct([pa.field(field.name, lake_type(column, field.type), nullable=field.nullable) for field in fields])
    raise UnsupportedType(f"column {column!r} has type {kind}, which a lake table cannot hold", hint=_HINT, column=column, type=kind)


def holds(lake: pa.DataType, source: pa.DataType) -> bool:
    """Returns whether a lake table's column can hold values of the type `source`, which is a result of `lake_type`.

    Fluss creates columns with the source's precision, which is unknown when rows are tiered: values that need a finer precision are refused
    when they are written.
    """
    if pa.types.is_timestamp(source):
        return pa.types.is_timestamp(lake) and lake.unit != "ns" and lake.tz == source.tz
    if source == pa.binary():
        return bool(pa.types.is_binary(lake) or pa.types.is_fixed_size_binary(lake))
    if isinstance(source, pa.ListType):
        return isinstance(lake, pa.ListType) and _holds_field(lake.value_field, source.value_field)
    if isinstance(source, pa.MapType):
        return isinstance(lake, pa.MapType) and holds(lake.key_type, source.key_type) and _holds_field(lake.item_field, source.item_field)
    if isinstance(source, pa.StructType):
        if not isinstance(lake, pa.StructType) or lake.num_fields != source.num_fields:
            return False
        pairs = [(lake.field(number), source.field(number)) for number in range(source.num_fields)]
        return all(of_lake.name == of_source.name and _holds_field(of_lake, of_source) for of_lake, of_source in pairs)
    return lake == source


def _holds_field(lake: pa.Field[Any], source: pa.Field[Any]) -> bool:
    return holds(lake.type, source.type) and (lake.nullable or not source.nullable)


def written_type(lake: pa.DataType) -> pa.DataType:
    """Returns the type of a lake column's values in files: values of BINARY(n) are plain bytes, as Paimon's own writer stores them."""
    if pa.types.is_fixed_size_binary(lake):
        return pa.binary()
    if isinstance(lake, pa.ListType):
        return pa.list_(_written_field(lake.value_field))
    if isinstance(lake, pa.MapType):
        return cast(pa.DataType, cast(Any, pa).map_(lake.key_field.with_type(written_type(lake.key_type)), _written_field(lake.item_field)))
    if isinstance(lake, pa.StructType):
        return pa.struct([_written_field(lake.field(number)) for number in range(lake.num_fields)])
    return lake


def _written_field(field: pa.Field[Any]) -> pa.Field[Any]:
    return field.with_type(written_type(field.type))


def _check_field_names(column: str, kind: pa.StructType, names: list[str]) -> None:
    if not names:
        raise UnsupportedType(f"column {column!r} has a struct without fields, which a lake table cannot hold", column=column, type=kind)
    folded = [folded_name(name) for name in names]
    for name in names:
        if not name or folded.count(folded_name(name)) > 1:
            raise InvalidName(
                f"column {column!r} has a field named {name!r}: the name is empty, or another field has it",
                hint="Rename the field; names are compared without regard to case.",
                column=column,
            )
