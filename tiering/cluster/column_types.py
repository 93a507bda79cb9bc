"""The column types that a table may have (DESIGN 12), each with the one form in which it is stored.

Types that differ only in layout (large_string, string_view, date64, timestamps in seconds, lists of fixed size) are converted to the stored
form; types that Iceberg v2 lacks are refused by name. Fields nested in a list, a map or a struct are always nullable (except for a map's
keys), and are named by their path as in Iceberg: `a.element.b`, `m.key`, `m.value`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa

from tiering.errors import InvalidArgument, InvalidName, UnsupportedType
from tiering.lake.column_names import folded_name
from tiering.model.names import check_name
from tiering.model.schema.changes import AddColumn, ChangeType, SchemaChange, changed_schema
from tiering.model.schema.field_ids import COMMENT, FIELD_ID, FIRST_NAME, LAST_FIELD_ID, all_fields, comment
from tiering.model.sql_types import spark_type

MAX_DECIMAL_PRECISION = 38
"""Iceberg's limit, and that of a 128-bit decimal."""

MAX_COLUMNS = 2_000
"""Maximum number of columns, nested fields included, so that a table's description always fits in a message."""
MAX_COMMENTS_BYTES = 512 * 1024
"""Maximum size of all comments of a table's columns together, for the same reason."""
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
        return pa.list_(_storable_field(kind.value_field, f"{path}.element", depth, name="element"))
    if isinstance(kind, pa.MapType):
        key = _storable_field(kind.key_field, f"{path}.key", depth, name="key", nullable=False)
        if pa.types.is_nested(key.type):
            raise UnsupportedType(
                f"column '{path}.key' has type {key.type}; a map's keys cannot be nested", hint=_HINT, column=f"{path}.key"
            )
        value = _storable_field(kind.item_field, f"{path}.value", depth, name="value")
        # pyarrow takes fields here, as its documentation says, but its stubs only have types.
        return cast(pa.DataType, cast(Any, pa).map_(key, value))
    if isinstance(kind, pa.StructType) and kind.num_fields:
        fields = [kind.field(index) for index in range(kind.num_fields)]
        try:
            _check_names([field.name for field in fields], "field")
        except InvalidName as error:
            raise InvalidName(f"column {path!r}: {error.message}", hint=error.hint, column=path) from error
        return pa.struct([_storable_field(field, f"{path}.{field.name}", depth) for field in fields])
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


def altered_schema(schema: pa.Schema, changes: Sequence[SchemaChange], key_columns: Collection[str] = ()) -> pa.Schema:
    """Returns a table's stored columns after all changes, in their order, with field ids. The same schema object if nothing changes.

    A new column that exists with the same type is left as it is. `key_columns` as in `changed_schema`. Raises InvalidArgument, and the
    errors of `storable_schema`.
    """
    effective: list[SchemaChange] = []
    names = set(schema.names)
    for change in map(_storable_change, changes):
        if not isinstance(change, AddColumn):
            names.clear()  # the names after this change are known to `changed_schema` only
        elif not change.parent and change.field.name in names and _is_repeated(schema, change):
            continue
        effective.append(change)
    if not effective:
        return schema
    changed = storable_schema(changed_schema(schema, effective, key_columns))
    return schema if changed.equals(schema, check_metadata=True) else changed


def _is_repeated(schema: pa.Schema, change: AddColumn) -> bool:
    """Returns whether the table has this column already. Raises InvalidArgument if it has another type, or the new one is NOT NULL."""
    field, existing = change.field, schema.field(change.field.name).type
    if field.type != existing:
        raise InvalidArgument(
            f"the column {field.name!r} exists already with the type {spark_type(existing)}; it cannot become {spark_type(field.type)}"
        )
    return field.nullable


def _storable_change(change: SchemaChange) -> SchemaChange:
    """Returns the change with the stored form of its type. Raises UnsupportedType, InvalidName."""
    if isinstance(change, AddColumn):
        return replace(change, field=storable_schema(pa.schema([change.field])).field(0))
    if isinstance(change, ChangeType):
        return replace(change, new_type=storable_type(".".join(change.path), change.new_type))
    return change


def storable_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the stored form of a table's columns. Of their metadata, comments and field ids stay.

    Raises InvalidName, UnsupportedType, InvalidArgument.
    """
    count = count_fields(schema)
    if not 0 < count <= MAX_COLUMNS:
        raise InvalidArgument(
            f"a table needs at least one column, and may have at most {MAX_COLUMNS}; this one has {count}",
            hint="Nested fields count as columns.",
        )
    _check_names(schema.names, "column")
    metadata: dict[bytes | str, bytes | str] = {key: value for key, value in (schema.metadata or {}).items() if key == LAST_FIELD_ID}
    stored = pa.schema([_storable_field(field, field.name, nullable=field.nullable) for field in schema], metadata=metadata or None)
    _check_comments(stored)
    return stored


def _check_comments(schema: pa.Schema) -> None:
    size = sum(len((comment(field) or "").encode()) for field in all_fields(schema))
    if size > MAX_COMMENTS_BYTES:
        raise InvalidArgument(f"the comments of the columns have {size} bytes; at most {MAX_COMMENTS_BYTES} are allowed")


def _storable_field(field: pa.Field[Any], path: str, depth: int = 0, *, name: str | None = None, nullable: bool = True) -> pa.Field[Any]:
    """Returns a field in its stored form, with its comment and ids."""
    kept = {key: value for key, value in (field.metadata or {}).items() if key in (COMMENT, FIELD_ID, FIRST_NAME)}
    return pa.field(name or field.name, storable_type(path, field.type, depth), nullable, metadata=kept or None)
