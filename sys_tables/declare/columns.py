"""Turns rows into Arrow arrays, in the schema that `tiering.model.declare` makes of their dataclass."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from tiering.model.declare import AnyField, names_in_sql

RowT = TypeVar("RowT")


def record_batch(schema: pa.Schema, rows: Sequence[object]) -> pa.RecordBatch:
    """Returns the rows' attributes named by `schema`, in its order. Raises ValueError for None in a column without NULLs."""
    arrays = [array_of(field, [getattr(row, field.name) for row in rows]) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def row_from(row_class: type[RowT], source: object, **values: object) -> RowT:
    """Returns a row with these values. Its other columns are the attributes of `source` with the same names."""
    same = {name: getattr(source, name) for name in names_in_sql(row_class) if name not in values}
    return row_class(**same, **values)


def array_of(field: AnyField, values: list[Any]) -> pa.Array[Any]:
    """Returns the values of one column. Raises ValueError for None in a column without NULLs."""
    if pa.types.is_nested(field.type):
        values = [_plain(value) for value in values]
    return checked_array(field, pa.array(values, type=field.type))


def checked_array(field: AnyField, array: pa.Array[Any]) -> pa.Array[Any]:
    """Returns the array in the field's type. Raises ValueError for a NULL in a column without NULLs."""
    if array.null_count and not field.nullable:
        # Spark drops `IS NOT NULL` on such a column: a NULL would make wrong answers, not an error.
        raise ValueError(f"the column {field.name!r} is declared without NULLs, but a row has none")
    return array if array.type == field.type else array.cast(field.type)


def without_nulls(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch with Arrow's null type for columns that have only NULLs: Arrow writes out every NULL of other types."""
    count, columns, nulls = batch.num_rows, batch.columns, pa.nulls(batch.num_rows)
    is_empty = [count > 0 and array.null_count == count for array in columns]
    fields = [field.with_type(pa.null()) if empty else field for field, empty in zip(batch.schema, is_empty, strict=True)]
    arrays: list[Any] = [nulls if empty else array for array, empty in zip(columns, is_empty, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _plain(value: Any) -> Any:
    """Returns nested values in the form that pyarrow accepts: structs as dicts, maps as pairs."""
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return [(key, _plain(item)) for key, item in value.items()]
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
