"""Gives rows of a source table the columns of its lake table, by field id. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tiering.model.schema.field_ids import children, identity, last_field_id
from tiering.model.schema.row_conversion import converted_rows

Prepare = Callable[[pa.RecordBatch, pa.Schema], pa.RecordBatch]
"""Prepares a batch of a split for `fitting.fit_records` with the given columns."""


def unprepared(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Returns the batch as it is."""
    return batch


def in_lake_columns(source: pa.Schema, lake: pa.Schema) -> Prepare:
    """Returns the function that gives batches the columns of the lake table.

    `lake`: the lake's columns with the field ids of the source (`column_ids.lake_columns_of_source`). A column that the source does not
    have any more is NULL. Types of values stay, because `fit_records` converts them and refuses single records. Further columns of a batch,
    such as system columns, stay behind the others.
    """
    if not last_field_id(source) or _has_same_shape(pa.struct(list(source)), pa.struct(list(lake))):
        return unprepared

    def prepared(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
        own = {identity(field): field for field in source}
        arrays = [_column(batch, own.get(identity(field)), field) for field in lake]
        others = [name for name in batch.schema.names if name not in source.names]
        return pa.RecordBatch.from_arrays([*arrays, *(batch.column(name) for name in others)], names=[*lake.names, *others])

    return prepared


def _column(batch: pa.RecordBatch, source: pa.Field[Any] | None, lake: pa.Field[Any]) -> pa.Array[Any]:
    """Returns the values of a lake column; NULLs if `source` is None."""
    if source is None:
        absent: pa.Array[Any] = pa.nulls(batch.num_rows, lake.type)
        return absent
    column: pa.Array[Any] = batch.column(source.name)
    if _has_same_shape(source.type, lake.type):
        return column
    rows = pa.RecordBatch.from_arrays([column], names=[source.name])
    values: pa.Array[Any] = converted_rows(rows, pa.schema([source]), pa.schema([lake])).column(0)
    return values


def _has_same_shape(source: pa.DataType, lake: pa.DataType) -> bool:
    """Whether both types have the same fields with the same names, whatever the types of their values."""
    before, after = children(source), children(lake)
    if [(identity(field), field.name) for field in before] != [(identity(field), field.name) for field in after]:
        return False
    return all(_has_same_shape(left.type, right.type) for left, right in zip(before, after, strict=True))
