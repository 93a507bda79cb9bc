"""Checks that each map has each key once, at every depth. Pure.

Arrow allows duplicate keys; Iceberg and Spark do not. DuckDB, which stores the present rows of primary-key tables and validates lakes,
refuses the whole batch. So such a row is refused before it is logged. Keys are compared as in DuckDB: 0.0 equals -0.0, and NaN equals NaN.
Values under a NULL are ignored.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.errors import InvalidData

ONCE_HINT = "A map may have each key only once: keep the last entry of each key."
_SHOWN_CHARACTERS = 80


def check_map_keys(batch: pa.RecordBatch) -> None:
    """Raises InvalidData naming column, row (from 0) and key, also in its ids."""
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
