"""One dataclass a row: its fields are the columns, and their types and comments are what SQL sees.

    @dataclass(frozen=True)
    class KvSnapshotLeaseRow:
        lease_id: str = column("Identifier of the lease, chosen by its owner.")
        buckets: int = column("Number of leased buckets.", arrow_type=INT)
        expires_at: datetime | None = column("When the server drops the lease; NULL = never.")

Python to Spark: str STRING, int BIGINT, float DOUBLE, bool BOOLEAN, datetime TIMESTAMP (UTC, microseconds),
`X | None` a nullable column, tuple[X, ...] ARRAY, Mapping[K, V] MAP, another such dataclass STRUCT.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import pyarrow as pa

from tiering.model.columns import ARROW_TYPE, COMMENT, SCALARS
from tiering.model.columns import INT as INT
from tiering.model.columns import column as column

COMMENT_KEY = b"comment"
"""Key of a column's comment in the metadata of its Arrow field (proto `SystemTable.schema`)."""

AnyField: TypeAlias = "pa.Field[pa.DataType]"


@cache
def schema_of(row_class: type) -> pa.Schema:
    """The Arrow schema of a row dataclass. Raises TypeError for a field without comment or with an unknown type."""
    return pa.schema(_fields_of(row_class))


def comment_of(field: AnyField) -> str:
    """The comment of a column; empty if it has none."""
    return (field.metadata or {}).get(COMMENT_KEY, b"").decode()


def arrow_type_of(annotation: object, override: pa.DataType | None = None) -> tuple[pa.DataType, bool]:
    """The Arrow type of an annotation, and whether it may be NULL. Raises TypeError for an annotation that no column can have."""
    annotation, nullable = _without_none(annotation)
    return (override if override is not None else _arrow_type(annotation)), nullable


def record_batch(schema: pa.Schema, rows: Sequence[object]) -> pa.RecordBatch:
    """The rows' attributes named by `schema`, in its order. Raises ValueError for None in a column that has no NULLs."""
    arrays = [array_of(field, [getattr(row, field.name) for row in rows]) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def array_of(field: AnyField, values: list[Any]) -> pa.Array[Any]:
    """The values of one column. Raises ValueError for None in a column that has no NULLs."""
    if pa.types.is_nested(field.type):
        values = [_plain(value) for value in values]
    return checked_array(field, pa.array(values, type=field.type))


def checked_array(field: AnyField, array: pa.Array[Any]) -> pa.Array[Any]:
    """The array in the field's type. Raises ValueError for a NULL in a column that has none."""
    if array.null_count and not field.nullable:
        # Spark drops `IS NOT NULL` on such a column: a NULL would make wrong answers, not an error.
        raise ValueError(f"the column {field.name!r} is declared without NULLs, but a row has none")
    return array if array.type == field.type else array.cast(field.type)


def without_nulls(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with Arrow's null type for columns that have only NULLs: Arrow writes out every NULL of other types."""
    count, columns, nulls = batch.num_rows, batch.columns, pa.nulls(batch.num_rows)
    is_empty = [count > 0 and array.null_count == count for array in columns]
    fields = [field.with_type(pa.null()) if empty else field for field, empty in zip(batch.schema, is_empty, strict=True)]
    arrays: list[Any] = [nulls if empty else array for array, empty in zip(columns, is_empty, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _plain(value: Any) -> Any:
    """Nested values in the form pyarrow takes: structs as dicts, maps as pairs."""
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return [(key, _plain(item)) for key, item in value.items()]
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _fields_of(row_class: type) -> list[AnyField]:
    if not dataclasses.is_dataclass(row_class):
        raise TypeError(f"{row_class.__name__} is not a dataclass")
    hints = typing.get_type_hints(row_class)
    return [_field_of(row_class, field, hints[field.name]) for field in dataclasses.fields(row_class)]


def _field_of(row_class: type, field: dataclasses.Field[Any], annotation: object) -> AnyField:
    comment = field.metadata.get(COMMENT)
    if not comment:
        raise TypeError(f"{row_class.__name__}.{field.name} has no comment: declare it with column(...)")
    arrow_type, nullable = arrow_type_of(annotation, field.metadata[ARROW_TYPE])
    return pa.field(field.name, arrow_type, nullable=nullable, metadata={COMMENT_KEY: comment.encode()})


def _without_none(annotation: object) -> tuple[object, bool]:
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation, False
    kinds = [kind for kind in typing.get_args(annotation) if kind is not types.NoneType]
    if len(kinds) != 1:
        raise TypeError(f"{annotation} is not one type: a column has one")
    return kinds[0], True


def _arrow_type(annotation: object) -> pa.DataType:
    if annotation in SCALARS:
        return SCALARS[annotation]
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return pa.struct(_fields_of(annotation))
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        element, nullable = arrow_type_of(arguments[0])
        return pa.list_(pa.field("element", element, nullable=nullable))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, value = (_arrow_type(argument) for argument in arguments)
        return pa.map_(key, value)
    raise TypeError(f"no column type for {annotation}")
