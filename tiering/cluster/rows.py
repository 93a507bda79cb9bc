"""Converts rows to the form of a table without loss: columns by name, each in the stored form of its type. Errors name the column. Pure.

Arrow allows a map with duplicate keys; Iceberg and Spark do not, and DuckDB refuses the whole batch. So such a row is refused before it is
logged. Keys are compared as in DuckDB: 0.0 equals -0.0, and NaN equals NaN. Values under a NULL are ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.cluster.column_types import count_fields, storable_type
from tiering.cluster.writable import Rows
from tiering.errors import InvalidData
from tiering.model.schema.field_ids import without_metadata
from tiering.model.tables import TableInfo

MAX_FILLED_IN = 32_000_000
"""Maximum number of NULLs for columns that a write leaves out: some 256 MB."""


def fit_rows(rows: Rows, table: TableInfo) -> pa.RecordBatch:
    """Returns `rows` as one batch of the table's first columns, up to the last one that `rows` has or that a new table had.

    Columns are matched by name, in any order; only columns that were added later may be missing. The batch has no metadata, so
    that comments do not change its bytes. Raises InvalidData (unknown, missing, repeated or mistyped
    column, null in a NOT NULL column, a map with a repeated key), UnsupportedType.
    """
    check_names(rows.schema, table.schema, table.added_columns)
    later = set(table.added_columns) - set(rows.schema.names)
    count = max((position + 1 for position, name in enumerate(table.schema.names) if name not in later), default=1)
    _check_filled_in(rows, list(table.schema)[:count])
    batch = fit_columns(rows, without_metadata(pa.schema(list(table.schema)[:count])), table.added_columns)
    check_map_keys(batch)
    return batch


def _check_filled_in(rows: Rows, fields: Sequence[pa.Field[Any]]) -> None:
    """Raises InvalidData for rows that leave out so many columns that a short request would become a large write."""
    missing = pa.schema([field for field in fields if field.name not in rows.schema.names])
    values = rows.num_rows * count_fields(missing)
    if values > MAX_FILLED_IN:
        raise InvalidData(
            f"{rows.num_rows} rows without {len(missing)} of the columns need {values} NULLs; one write may need at most {MAX_FILLED_IN}",
            hint="Write fewer rows at once.",
        )


def fit_columns(rows: Rows, schema: pa.Schema, may_lack: Collection[str] = ()) -> pa.RecordBatch:
    """Returns `rows` as one batch of exactly `schema`, with NULL for missing columns that are in `may_lack`. Raises the errors of
    `fit_rows`.
    """
    check_names(rows.schema, schema, may_lack)
    columns = [
        _fit_column(_as_array(rows.column(field.name)), field) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def check_names(have: pa.Schema, want: pa.Schema, may_lack: Collection[str] = ()) -> None:
    """Raises InvalidData unless both have the same columns, each once; columns in `may_lack` may be missing."""
    for name in have.names:
        if name not in want.names:
            raise InvalidData(f"the table has no column {name!r}", hint=f"Its columns: {', '.join(want.names)}.", column=name)
        if have.names.count(name) > 1:
            raise InvalidData(f"the column {name!r} occurs twice", column=name)
    for name in want.names:
        if name not in have.names and name not in may_lack:
            raise InvalidData(f"the column {name!r} is missing", hint=f"Needed: {', '.join(want.names)}.", column=name)


def _as_array(column: pa.Array[Any] | pa.ChunkedArray[Any]) -> pa.Array[Any]:
    if not isinstance(column, pa.ChunkedArray):
        return column
    # For very large strings, combine_chunks of several chunks may return a chunked array again.
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _fit_column(column: pa.Array[Any], field: pa.Field[Any]) -> pa.Array[Any]:
    if storable_type(field.name, column.type) != field.type:
        raise InvalidData(f"column {field.name!r} is {column.type}; the table has {field.type}", column=field.name)
    if not field.nullable and column.null_count:
        raise InvalidData(f"column {field.name!r} has a null; the table declares it NOT NULL", column=field.name)
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise InvalidData(f"column {field.name!r} does not fit {field.type}: {error}", column=field.name) from error


ONCE_HINT = "A map may have each key only once: keep the last entry of each key."
_SHOWN_CHARACTERS = 80


def check_map_keys(batch: pa.RecordBatch) -> None:
    """Checks that each map has each key once, at every depth. Raises InvalidData naming column, row (from 0) and key, also in its ids."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if _holds_maps(field.type):
            _check(field.name, column, np.arange(len(column)))


@lru_cache(maxsize=1_000)
def _holds_maps(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(_holds_maps(kind.field(index).type) for index in range(kind.num_fields))


def _check(path: str, column: Any, rows: npt.NDArray[np.int64]) -> None:
    """Checks a column and its nested values. `rows` has, for each value of `column`, the number of the row to which it belongs."""
    kind = column.type
    if not _holds_maps(kind):
        return
    if pa.types.is_struct(kind):
        for index, child in enumerate(column.flatten()):
            _check(f"{path}.{kind.field(index).name}", child, rows)
        return
    places, lengths = _places(column)
    owners = np.repeat(np.arange(len(column)), lengths)
    if pa.types.is_map(kind):
        _check_keys(path, column.keys.take(pa.array(places)), owners, rows)
        _check(f"{path}.value", column.items.take(pa.array(places)), rows[owners])
    else:
        _check(f"{path}.element", column.values.take(pa.array(places)), rows[owners])


def _places(column: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the positions of the values of lists or maps in their child array, without those under NULL, and the number of values of
    each.
    """
    offsets = column.offsets.to_numpy().astype(np.int64)
    lengths = np.where(column.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), 0)
    before = np.cumsum(lengths) - lengths
    return np.repeat(offsets[:-1] - before, lengths) + np.arange(lengths.sum()), lengths


def _check_keys(path: str, keys: Any, owners: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> None:
    if pa.types.is_floating(keys.type):
        numbers = keys.to_numpy(zero_copy_only=False)
        keys = pa.array(np.where(np.isnan(numbers), np.nan, numbers + 0.0), keys.type, from_pandas=False)
    pairs = pa.Table.from_arrays([pa.array(owners), keys], names=["map", "key"])
    counted = pairs.group_by(["map", "key"], use_threads=False).aggregate([([], "count_all")])
    if counted.num_rows < pairs.num_rows:
        twice = counted.slice(int(np.flatnonzero(counted.column("count_all").to_numpy() > 1)[0]), 1)
        key = str(twice.column("key").cast(pa.string())[0]) if pa.types.is_primitive(keys.type) else repr(twice.column("key")[0].as_py())
        row, key = rows[twice.column("map")[0].as_py()], key[:_SHOWN_CHARACTERS]
        raise InvalidData(
            f"column {path!r} has a map with the key {key} twice, in row {row}", hint=ONCE_HINT, column=path, row=row, key=key
        )
