"""A set of keys in memory, which tells for many rows at once whether their key is in it.

Integers, dates and times are looked up in a bitmap. Most rows of a lake have no changed key, so the bitmap decides about nearly all rows
without a comparison. Other values are compared by Arrow. The values of composite keys are numbered column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
KeyTest = Callable[[Sequence["pa.Array[Any]"]], Mask]
"""Tells for each row of some key columns whether its key is in the set."""

MAX_BITMAP = 1 << 25
"""Largest number of entries of a bitmap; each takes a byte."""
ENTRIES_A_KEY = 64
"""Entries of a bitmap for each key, if the range of the integers is larger. One in 64 foreign keys then needs a comparison."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""Fibonacci hashing: the highest bits of a product with it depend on all bits of the integer."""
_MAX_CODES = 1 << 62


def key_test(columns: Sequence[pa.ChunkedArray[Any]]) -> KeyTest | None:
    """Returns the test for the keys of `columns`, at least one key. None: the columns have too many combinations of values to number."""
    if len(columns) == 1:
        contains = _column_test(columns[0])
        return lambda keys: contains(keys[0])
    return _composite_test(columns)


def _column_test(values: pa.ChunkedArray[Any]) -> Callable[[pa.Array[Any]], Mask]:
    if _is_integer(values.type):
        integers = IntegerSet(_integers(values.combine_chunks()))
        return lambda keys: integers.contains(_integers(keys))
    distinct = pc.unique(values)
    return lambda keys: pc.is_in(keys, value_set=distinct).to_numpy(zero_copy_only=False)


def _composite_test(columns: Sequence[pa.ChunkedArray[Any]]) -> KeyTest | None:
    distinct = [cast("pa.Array[Any]", pc.unique(column)) for column in columns]
    if prod(map(len, distinct)) > _MAX_CODES:
        return None
    tests = [_column_test(pa.chunked_array([values])) for values in distinct]
    coders = [_coder(values) for values in distinct]
    sizes = [len(values) for values in distinct]

    def codes(keys: Sequence[pa.Array[Any]]) -> Integers:
        total = np.zeros(len(keys[0]), np.int64)
        for key, code, size in zip(keys, coders, sizes, strict=True):
            total = total * size + code(key)
        return total

    members = IntegerSet(codes([column.combine_chunks() for column in columns]))

    def contains(keys: Sequence[pa.Array[Any]]) -> Mask:
        may_be: Mask = np.logical_and.reduce([test(key) for test, key in zip(tests, keys, strict=True)])
        places = np.flatnonzero(may_be)
        if len(places):
            may_be[places] = members.contains(codes([key.take(cast(Any, pa.array(places))) for key in keys]))
        return may_be

    return contains


def _coder(distinct: pa.Array[Any]) -> Callable[[pa.Array[Any]], Integers]:
    """Returns a function that gives the number of each of its values, which all are in `distinct`."""
    if _is_integer(distinct.type):
        in_order = np.sort(_integers(distinct))
        return lambda keys: np.searchsorted(in_order, _integers(keys))
    return lambda keys: pc.index_in(keys, value_set=distinct).to_numpy(zero_copy_only=False).astype(np.int64)


class IntegerSet:
    """A set of integers, of which there is at least one."""

    def __init__(self, values: Integers) -> None:
        self._values = np.unique(values)
        self._low, high = int(self._values[0]), int(self._values[-1])
        self._is_exact = high - self._low < MAX_BITMAP
        if self._is_exact:
            self._bitmap = np.zeros(high - self._low + 1, dtype=bool)
            self._bitmap[self._values - self._low] = True
            return
        bits = min(MAX_BITMAP.bit_length() - 1, max(16, (len(self._values) * ENTRIES_A_KEY).bit_length()))
        self._shift = np.uint64(64 - bits)
        self._bitmap = np.zeros(1 << bits, dtype=bool)
        self._bitmap[self._slots(self._values)] = True

    def contains(self, keys: Integers) -> Mask:
        """Returns for each key whether it is in the set."""
        if self._is_exact:
            places = keys.view(np.uint64) - np.uint64(self._low & ((1 << 64) - 1))  # wraps around below the lowest value
            inside = places < len(self._bitmap)
            return inside & self._bitmap[np.where(inside, places, 0).astype(np.int64)]
        may_be = self._bitmap[self._slots(keys)]
        candidates = np.flatnonzero(may_be)
        at = np.minimum(np.searchsorted(self._values, keys[candidates]), len(self._values) - 1)
        may_be[candidates] = self._values[at] == keys[candidates]
        return may_be

    def _slots(self, keys: Integers) -> Integers:
        return ((keys.view(np.uint64) * _MULTIPLIER) >> self._shift).astype(np.int64)


def _is_integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) and kind != pa.uint64()) or bool(pa.types.is_temporal(kind) and not pa.types.is_interval(kind))


def _integers(values: pa.Array[Any]) -> Integers:
    """Returns integers, or the stored numbers of dates and times, of which none is null."""
    kind = values.type
    if pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return values.to_numpy().astype(np.int64, copy=False)
