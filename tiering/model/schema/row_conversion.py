"""Converts rows from one version of a table's columns to another one. Pure.

Fields are matched by their identity (`field_ids`): a renamed field keeps its values, a dropped one loses them, an added one is NULL, and
the values of a widened one are cast without loss.
"""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa

from tiering.model.schema.field_ids import children, has_field_ids, identity


def converted_rows(rows: pa.RecordBatch, former: pa.Schema, current: pa.Schema) -> pa.RecordBatch:
    """Returns `rows`, whose columns are those of `former`, with the columns of `current`. Both schemas have ids, or none has.

    Raises pa.ArrowInvalid for a value that does not fit its new type, which cannot happen after the changes of `changes`.
    """
    if has_field_ids(former) != has_field_ids(current):
        raise ValueError("only one of the two schemas has field ids")
    columns = {identity(field): (column, field) for column, field in zip(rows.columns, former, strict=True)}
    return pa.RecordBatch.from_arrays([_child(columns, field, rows.num_rows) for field in current], schema=current)


def has_same_values(former: pa.DataType | pa.Schema, current: pa.DataType | pa.Schema) -> bool:
    """Whether rows of one version are rows of the other one without a conversion, except for the names of their fields."""
    before, after = children(former), children(current)
    if [identity(field) for field in before] != [identity(field) for field in after]:
        return False
    return all(_is_same(left.type, right.type) for left, right in zip(before, after, strict=True))


def _is_same(former: pa.DataType, current: pa.DataType) -> bool:
    if former.num_fields == 0 or current.num_fields == 0:
        return bool(former == current)
    return bool(former.id == current.id) and has_same_values(former, current)


def _child(columns: dict[Any, tuple[pa.Array[Any], pa.Field[Any]]], field: pa.Field[Any], count: int) -> pa.Array[Any]:
    """Returns the values of `field` in rows whose fields are `columns`; NULLs if they lack it."""
    column, former = columns.get(identity(field), (None, None))
    if column is None or former is None:
        values: pa.Array[Any] = pa.nulls(count, field.type)
    else:
        values = _converted(column, former.type, field.type)
    return values


def _converted(column: Any, former: pa.DataType, current: pa.DataType) -> Any:
    if former.num_fields == 0 or current.num_fields == 0:
        return column if former == current else column.cast(current)
    if former == current and has_same_values(former, current):
        return column
    if isinstance(column, pa.StructArray):
        columns = {identity(field): (column.field(index), field) for index, field in enumerate(children(former))}
        values = [_child(columns, field, len(column)) for field in children(current)]
        return cast(Any, pa.StructArray).from_arrays(values, fields=children(current), mask=column.is_null())
    return _converted_list(column, former, current)


def _converted_list(column: Any, former: pa.DataType, current: pa.DataType) -> pa.Array[Any]:
    """Returns a list or map array with converted values. It keeps the buffers of the offsets, and so the position of a slice."""
    before, after = children(former), children(current)
    if isinstance(current, pa.MapType):
        keys, items = (
            _converted(values, old.type, new.type) for values, old, new in zip((column.keys, column.items), before, after, strict=True)
        )
        inner: pa.Array[Any] = cast(Any, pa.StructArray).from_arrays([keys, items], fields=after)
    else:
        inner = _converted(column.values, before[0].type, after[0].type)
    buffers = column.buffers()[:2]
    return pa.Array.from_buffers(current, len(column), buffers, column.null_count, column.offset, [inner])
