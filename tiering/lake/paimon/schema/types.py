"""Which Arrow types a Paimon table holds, and how rows of them are written. Pure."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa

from tiering.errors import InvalidName, UnsupportedType

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
    """The type in which a column's values are held, in pypaimon's terms. Raises UnsupportedType or InvalidName, naming the column."""
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
        return cast(pa.DataType, cast(Any, pa).map_(key, value))  # pyarrow takes fields here, its stubs know types only
    if isinstance(kind, pa.StructType):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        _check_field_names(column, kind, [field.name for field in fields])
        return pa.struct([pa.field(field.name, lake_type(column, field.type), nullable=field.nullable) for field in fields])
    raise UnsupportedType(f"column {column!r} has type {kind}, which a lake table cannot hold", hint=_HINT, column=column, type=kind)


def _check_field_names(column: str, kind: pa.StructType, names: list[str]) -> None:
    if not names:
        raise UnsupportedType(f"column {column!r} has a struct without fields, which a lake table cannot hold", column=column, type=kind)
    lowered = [name.lower() for name in names]
    for name in names:
        if not name or lowered.count(name.lower()) > 1:
            raise InvalidName(
                f"column {column!r} has a field named {name!r} that has no name, or the name of another one",
                hint="Rename it; names are compared without regard to case.",
                column=column,
            )
