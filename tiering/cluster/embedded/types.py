"""Which columns a table may have: the flat types of DESIGN 12, each in the one form in which it is stored.

Forms that differ in layout only (large_string, string_view, date64, timestamps in seconds) become the stored form;
types that Iceberg v2 lacks are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tiering.errors import InvalidArgument, InvalidName, UnsupportedType
from tiering.names import check_name

MAX_DECIMAL_PRECISION = 38
"""Iceberg's limit, and that of a 128-bit decimal."""

MAX_COLUMNS = 2_000
"""So that a table's description always fits a message."""

_SAME_VALUES: Mapping[pa.DataType, pa.DataType] = {
    **{kind: kind for kind in (pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())},
    **{kind: kind for kind in (pa.string(), pa.binary(), pa.date32())},
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}
_HINT = (
    "Use boolean, int8 to int64, float, double, decimal up to 38 digits, string, binary, date, or timestamp in microseconds "
    "with or without a zone."
)


def storable_type(column: str, kind: pa.DataType) -> pa.DataType:
    """The stored form of a column's type; raises UnsupportedType naming column and type."""
    if kind in _SAME_VALUES:
        return _SAME_VALUES[kind]
    if isinstance(kind, pa.TimestampType) and kind.unit != "ns":
        return pa.timestamp("us", tz=None if kind.tz is None else "UTC")
    if isinstance(kind, pa.Decimal128Type) and 0 <= kind.scale <= kind.precision <= MAX_DECIMAL_PRECISION:
        return kind
    raise UnsupportedType(f"column {column!r} has type {kind}, which a lake table cannot hold", hint=_HINT, column=column)


def with_columns(schema: pa.Schema, added: Sequence[pa.Field[Any]]) -> pa.Schema:
    """A table's stored columns and, behind them, those of `added` that are not there yet.

    Raises InvalidArgument (NOT NULL, or there with another type), and as `storable_schema`.
    """
    fields = list(schema)
    for field in added:
        if not field.nullable:
            raise InvalidArgument(f"the new column {field.name!r} is NOT NULL", hint="Rows that are there already have no value for it.")
        if field.name in schema.names:
            existing = schema.field(field.name).type
            if storable_type(field.name, field.type) != existing:
                raise InvalidArgument(f"the column {field.name!r} is there already, as {existing}; it cannot become {field.type}")
        else:
            fields.append(field)
    return storable_schema(pa.schema(fields))


def storable_schema(schema: pa.Schema) -> pa.Schema:
    """The stored form of a table's columns, without metadata; raises InvalidName, UnsupportedType, InvalidArgument."""
    if not 0 < len(schema) <= MAX_COLUMNS:
        raise InvalidArgument(f"a table needs at least one column, and may have at most {MAX_COLUMNS}; this one has {len(schema)}")
    seen: dict[str, str] = {}
    for name in schema.names:
        check_name(name, "column")
        twin = seen.setdefault(name.lower(), name)
        if seen[name.lower()] is not name:
            raise InvalidName(f"the columns {twin!r} and {name!r} have the same name", hint="Names are compared without regard to case.")
    return pa.schema([pa.field(field.name, storable_type(field.name, field.type), field.nullable) for field in schema])
