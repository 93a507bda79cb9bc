"""Converts rows to the columns, the order and the types of a lake table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.errors import InvalidData
from tiering.lake.base import WriterInitContext
from tiering.lake.outside_errors import misfit
from tiering.lake.writing.required_values import with_required_values
from tiering.model.refused_records import UnwritableRow, cast_values, refusal_of
from tiering.model.tables import CHANGE_TYPE_COLUMN, SYSTEM_COLUMN_FIELDS, ChangeType


def watched_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the columns that guards check: those of files, followed by the system columns that files lack."""
    return pa.schema([*schema, *(field for field in SYSTEM_COLUMN_FIELDS if field.name not in schema.names)])


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns `batch` with the lake's columns in the lake's order and types. Copies only what does not fit. Raises InvalidData."""
    try:
        return _fitted(batch, schema, None)
    except UnwritableRow as error:
        raise InvalidData(f"the column {error.column!r} of the rows {error.reason}", column=error.column) from error


def fit_records(batch: pa.RecordBatch, schema: pa.Schema, context: WriterInitContext) -> pa.RecordBatch:
    """Returns what `fit` returns, for records of a log or a KV snapshot. Raises BucketStopped for a record that the lake cannot hold."""
    try:
        return _fitted(batch, schema, _unread(batch))
    except UnwritableRow as error:
        raise refusal_of(error, batch, context.table.path, context.bucket, context.partition_name) from error


def _fitted(batch: pa.RecordBatch, schema: pa.Schema, unread: npt.NDArray[np.bool_] | None) -> pa.RecordBatch:
    """Returns the converted batch. `unread` masks rows that only remove other rows: readers of the lake use only their keys."""
    columns: list[pa.Array[Any]] = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            raise InvalidData(f"the rows lack the column {field.name!r}", column=field.name)
        column = batch.column(index)
        if column.type != field.type:
            column = _cast(column, field)
        columns.append(with_required_values(column, field, unread))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: Any, field: pa.Field[Any]) -> Any:
    try:
        return cast_values(column, field)
    except pa.ArrowException as error:
        raise misfit(f"column {field.name!r} of the rows does not fit", error, column=field.name) from error


def _unread(batch: pa.RecordBatch) -> npt.NDArray[np.bool_] | None:
    index = batch.schema.get_field_index(CHANGE_TYPE_COLUMN)
    if index < 0:
        return None
    return np.isin(batch.column(index).to_numpy(zero_copy_only=False), (ChangeType.UPDATE_BEFORE, ChangeType.DELETE))
