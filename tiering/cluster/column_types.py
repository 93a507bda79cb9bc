"""The column types that a table may have (DESIGN 12), each with the one form in which it is stored.

Types that differ only in layout (large_string, string_view, date64, timestamps in seconds, lists of fixed size) are converted to the stored
form; types that Iceberg v2 lacks are refused by name. Fields nested in a list, a map or a struct are always nullable (except for a map's
keys), and are named by their path as in Iceberg: `a.element.b`, `m.key`, `m.value`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tiering.errors import InvalidArgument, InvalidName, UnsupportedType
from tiering.lake.column_names import folded_name
from tiering.model.names import check_name

MAX_DECIMAL_PRECISION = 38
"""Iceberg's limit, and that of a 128-bit decimal."""

MAX_COLUMNS = 2_000
"""Maximum number of columns, nested fields included, so that a table's description always fits in a message."""
MAX_DEPTH = 16
"""Maximum depth of nested lists, maps and structs; real tables have only a few levels."""

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
    "Use boolean, int8 to int64, float, double, decimal up to 38 digits, string, binary, date, timestamp in microseconds "
    "with or without a zone, or lists, maps and structs of these."
)


def storable_type(column: str, kind: pa.DataType, depth: int = 0) -> pa.DataType:
    """Returns the stored form of a column's type. Raises UnsupportedType, naming the path and its type, and InvalidName."""
    if kind in _SAME_VALUES:
        return _SAME_VALUES[kind]
    if isinstance(kind, pa.TimestampType) and kind.unit != "ns":
        return pa.timestamp("us", tz=None if kind.tz is None else "UTC")
    if isinstance(kind, pa.Decimal128Type) and 0 <= kind.scale <= kind.precision <= MAX_DECIMAL_PRECISION:
        return kind
    if depth < MAX_DEPTH and (nested := _nested_type(column, kind, depth + 1)) is not None:
        return nested
    raise UnsupportedType(f"column {column!r} has type {kind}, which a lake table cannot hold", hint=_HINT, column=column)


def _nested_type(path: str, kind: pa.DataType, depth: int) -> pa.DataType | None:
    """Returns the stored form of a list, map or struct; None for any other type."""
    if isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        return pa.list_(pa.field("element", storable_type(f"{path}.element", kind.value_type, depth)))
    if isinstance(kind, pa.MapType):
        key = storable_type(f"{path}.key", kind.key_type, depth)
        if pa.types.is_nested(key):
            raise UnsupportedType(f"column '{path}.key' has type {key}; a map's keys cannot be nested", hint=_HINT, column=f"{path}.key")
        return pa.map_(key, storable_type(f"{path}.value", kind.item_type, depth))
    if isinstance(kind, pa.StructType) and kind.num_fields:
        fields = [kind.field(index) for index in range(kind.num_fields)]
        _check_names([field.name for field in fields], f"field of {path!r}")
        return pa.struct([pa.field(field.name, storable_type(f"{path}.{field.name}", field.type, depth)) for field in fields])
    return None


def count_fields(kind: pa.DataType | pa.Schema) -> int:
    """Counts all fields of a schema or type, nested ones included."""
    inner = list(kind) if isinstance(kind, pa.Schema) else [kind.field(index) for index in range(kind.num_fields)]
    return sum(1 + count_fields(field.type) for field in inner)


def _check_names(names: Sequence[str], noun: str) -> None:
    by_folded_name: dict[str, str] = {}
    for name in names:
        check_name(name, noun)
        twin = by_folded_name.setdefault(folded_name(name), name)
        if twin is not name:
            raise InvalidName(f"the {noun}s {twin!r} and {name!r} have the same name", hint="Names are compared without regard to case.")


def with_columns(schema: pa.Schema, added: Sequence[pa.Field[Any]]) -> pa.Schema:
    """Returns a table's stored columns followed by the new ones of `added`.

    Raises InvalidArgument (NOT NULL, or existing with another type), and the errors of `storable_schema`.
    """
    fields = list(schema)
    for field in added:
        if not field.nullable:
            raise InvalidArgument(f"the new column {field.name!r} is NOT NULL", hint="The existing rows have no value for it.")
        if field.name in schema.names:
            existing = schema.field(field.name).type
            if storable_type(field.name, field.type) != existing:
                raise InvalidArgument(f"the column {field.name!r} exists already with the type {existing}; it cannot become {field.type}")
        else:
            fields.append(field)
    return storable_schema(pa.schema(fields))


def storable_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the stored form of a table's columns, without metadata. Raises InvalidName, UnsupportedType, InvalidArgument."""
    count = count_fields(schema)
    if not 0 < count <= MAX_COLUMNS:
        raise InvalidArgument(f"a table needs at least one column, and may have at most {MAX_COLUMNS}; this one has {count}")
    _check_names(schema.names, "column")
    return pa.schema([pa.field(field.name, storable_type(field.name, field.type), field.nullable) for field in schema])
