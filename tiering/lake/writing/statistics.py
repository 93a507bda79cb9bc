"""Selects the columns of a Parquet file that get minimum and maximum: all except floats with NaN.

Arrow leaves NaN out of a row group's minimum and maximum. DuckDB and Spark rank NaN above all numbers, and Arrow compares it with none. So
each of them skips a row group of `[NaN, 1.0]` by its statistics, and misses the row. Parquet statistics are switched on or off for a whole
file. A file without statistics for a column is read completely, so the result is correct.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_FLOATS = ("FLOAT", "DOUBLE")
"""Physical types of floats in Parquet."""


class FloatsWithoutStatistics:
    """The columns in which a writer found a NaN. Later files of the writer have no statistics of their floats."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()

    def adds(self, rows: pa.Table) -> bool:
        """Records the columns of `rows` with NaN, and returns whether any is new.

        If so, the open file must end before these rows, because statistics apply to a whole file.
        """
        new = {name for name, column in zip(rows.column_names, rows.columns, strict=True) if name not in self.names and _holds_nan(column)}
        self.names |= new
        return bool(new)


def columns_with_statistics(schema: pa.Schema, without: frozenset[str]) -> bool | list[str]:
    """Returns the argument `write_statistics` of a writer of `schema`: all columns except the floats in the columns `without`."""
    if not without:
        return True
    with pq.ParquetWriter(pa.BufferOutputStream(), schema) as empty:
        pass
    columns = empty.writer.metadata.schema
    leaves = [columns.column(position) for position in range(len(columns))]
    return [leaf.path for leaf in leaves if leaf.physical_type not in _FLOATS or not _is_within(leaf.path, without)]


def _is_within(path: str, columns: frozenset[str]) -> bool:
    """Whether a leaf belongs to one of `columns`. A name with a dot may also match a nested field of another column."""
    return any(path == name or path.startswith(f"{name}.") for name in columns)


def _holds_nan(column: pa.ChunkedArray[Any]) -> bool:
    kind = column.type
    if pa.types.is_floating(kind):
        return bool(pc.any(pc.is_nan(column)).as_py())
    if not _has_floats(kind):
        return False
    return any(_holds_nan(part) for part in _parts(column))


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        return True
    return any(_has_floats(kind.field(position).type) for position in range(kind.num_fields))


def _parts(column: pa.ChunkedArray[Any]) -> list[pa.ChunkedArray[Any]]:
    """Returns the columns directly below a nested one."""
    kind: Any = column.type
    if pa.types.is_struct(kind):
        return list(column.flatten())
    if pa.types.is_map(kind):
        maps: list[Any] = column.chunks
        keys = pa.chunked_array([chunk.keys for chunk in maps], kind.key_type)
        return [keys, pa.chunked_array([chunk.items for chunk in maps], kind.item_type)]
    flattened: Any = pc.list_flatten(column)
    return [flattened]
