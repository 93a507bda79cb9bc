"""Converts rows to the columns, the order and the types of a lake table."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.errors import InvalidData
from tiering.lake.base import WriterInitContext
from tiering.lake.outside_errors import misfit
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


Mask: TypeAlias = npt.NDArray[np.bool_]
Places: TypeAlias = npt.NDArray[np.int64]


# Below a struct that is NULL, a field that is NOT NULL has no value. Arrow may mark the field as NULL there, for example after decoding
# or `take`, and the Parquet writer refuses that mark. Such marks are removed, because values below a NULL are never read. A NULL below a
# value that is not NULL comes from the user, and cannot be written.
def with_required_values(column: Any, field: pa.Field[Any], unread: Mask | None = None) -> Any:
    """Returns `column`, which has the type of `field`, without NULL marks where the type is NOT NULL. Without such a mark it returns the
    same array.

    `unread`: rows whose values are not read, such as those of deletions. Raises UnwritableRow for a NULL in any other row.
    """
    if not _has_required_part(field.type) and (field.nullable or not column.null_count):
        return column
    unread = np.zeros(len(column), dtype=bool) if unread is None else unread
    return _settled(column, field, np.arange(len(column)), unread, field.name)


@cache
def _has_required_part(kind: pa.DataType) -> bool:
    """Whether a field within a nested type is NOT NULL. The key of a map does not count, because Arrow holds no NULL there."""
    if isinstance(kind, pa.MapType):
        return not kind.item_field.nullable or _has_required_part(kind.key_type) or _has_required_part(kind.item_type)
    if isinstance(kind, pa.StructType | pa.ListType):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return any(not field.nullable or _has_required_part(field.type) for field in fields)
    return False


def _settled(column: Any, field: pa.Field[Any], rows: Places, unread: Mask, path: str) -> Any:
    """Returns `column` without such marks at any depth. `rows` has the batch row to which each value of `column` belongs."""
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else np.zeros(len(column), dtype=bool)
    if not field.nullable and nulls.any():
        missing = nulls & ~unread
        if missing.any():
            raise UnwritableRow(int(rows[missing].min()), path, "is NOT NULL and has no value")
    mask = pa.array(nulls) if field.nullable and nulls.any() else None
    if not _has_required_part(field.type):
        return column if field.nullable or not nulls.any() else _unmarked(column)
    if isinstance(field.type, pa.StructType):
        return _settled_struct(column, field.type, rows, unread | nulls, path, mask)
    return _settled_list(column, field.type, rows, unread | nulls, path, mask)


def _settled_struct(column: Any, kind: pa.StructType, rows: Places, unread: Mask, path: str, mask: Any) -> Any:
    fields = [kind.field(index) for index in range(kind.num_fields)]
    children = [_settled(column.field(index), field, rows, unread, f"{path}.{field.name}") for index, field in enumerate(fields)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _settled_list(column: Any, kind: Any, rows: Places, unread: Mask, path: str, mask: Any) -> Any:
    """Returns a list or a map without such marks. Only the elements that `column` uses are taken."""
    ends = column.offsets.to_numpy()
    first, lengths = int(ends[0]), np.diff(ends)
    rows, unread, offsets = np.repeat(rows, lengths), np.repeat(unread, lengths), pa.array(ends - ends[0], pa.int32())
    if not isinstance(kind, pa.MapType):
        elements = _settled(column.values.slice(first, len(rows)), kind.value_field, rows, unread, f"{path}.element")
        return pa.ListArray.from_arrays(offsets, elements, type=kind, mask=mask)
    keys = _settled(column.keys.slice(first, len(rows)), kind.key_field, rows, unread, f"{path}.key")
    items = _settled(column.items.slice(first, len(rows)), kind.item_field, rows, unread, f"{path}.value")
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)  # type: ignore[call-overload]  # not in the stubs


def _unmarked(column: Any) -> Any:
    """Returns `column` without its bitmap of NULLs. The values in their places are never read."""
    kind = column.type
    if isinstance(kind, pa.StructType):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.StructArray.from_arrays([column.field(index) for index in range(len(fields))], fields=fields)
    if isinstance(kind, pa.MapType):
        return pa.MapArray.from_arrays(column.offsets, column.keys, column.items, type=kind)  # type: ignore[call-overload]
    if isinstance(kind, pa.ListType):
        return pa.ListArray.from_arrays(column.offsets, column.values, type=kind)
    buffers: Any = [None, *column.buffers()[1:]]
    return pa.Array.from_buffers(kind, len(column), buffers, 0, column.offset)
