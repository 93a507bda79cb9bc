"""Rows in the columns, the order and the types of a lake table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tiering.errors import InvalidData
from tiering.lake.outside_errors import describe
from tiering.model.tables import SYSTEM_COLUMN_FIELDS


def watched_schema(schema: pa.Schema) -> pa.Schema:
    """What guards look at: the columns of files, and the system columns behind them if files have none."""
    return pa.schema([*schema, *(field for field in SYSTEM_COLUMN_FIELDS if field.name not in schema.names)])


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`batch` with the lake's columns in the lake's order and types; copies nothing that fits already."""
    columns: list[pa.Array[Any]] = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        if index < 0:
            raise InvalidData(f"the rows lack the column {field.name!r}", column=field.name)
        column = batch.column(index)
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException as error:
            raise InvalidData(f"column {field.name!r} of the rows does not fit: {describe(error)}", column=field.name) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)
