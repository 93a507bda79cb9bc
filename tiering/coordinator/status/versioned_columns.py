"""Columns that are kept between reads, over rows of which few change. A cell is computed again when its row is another object.

Rows have positions, and a version is all rows at one time. A column moves from its present version to the requested one, older or newer, by
the positions that differ. Returned arrays never change. The classes are not thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, count
from operator import is_not
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.model.reading.matching import AnyArray

RowT = TypeVar("RowT")
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Version(Generic[RowT]):
    """All rows at one time."""

    rows: Sequence[RowT]


@lru_cache(maxsize=8)
def differing_positions(before: Version[Any], after: Version[Any]) -> Sequence[int]:
    """Returns the positions whose row is another object, or is in one of the versions only. All columns of a scan share the answer."""
    changed = list(compress(count(), map(is_not, before.rows, after.rows)))
    return [*changed, *range(*sorted((len(before.rows), len(after.rows))))]


class VersionedColumn(Generic[RowT]):
    """One column of all rows. `read` computes a row's cell, a value that pyarrow accepts for `kind`."""

    def __init__(self, kind: pa.DataType, read: Callable[[RowT], Any]) -> None:
        self._kind = kind
        self._read = read
        self._version: Version[RowT] | None = None
        self._cells: list[Any] = []
        self._array: AnyArray | None = None
        self._selection: tuple[AnyArray, Positions, AnyArray] | None = None

    def array(self, version: Version[RowT]) -> AnyArray:
        """Returns the column of this version."""
        if self._version is not version:
            self._renew(version)
        if self._array is None:
            self._array = pa.array(self._cells, type=self._kind)
        return self._array

    def at(self, version: Version[RowT], positions: Positions) -> AnyArray:
        """Returns the cells at `positions`, and caches them for the next call with the same positions."""
        array = self.array(version)
        if self._selection is None or self._selection[0] is not array or self._selection[1] is not positions:
            self._selection = (array, positions, array.take(pa.array(positions)))
        return self._selection[2]

    def _renew(self, version: Version[RowT]) -> None:
        rows, cells = version.rows, self._cells
        stale = self._version is None or len(cells) != len(rows)
        del cells[len(rows) :]
        for position in () if self._version is None else differing_positions(self._version, version):
            if position < len(cells) and (cell := self._read(rows[position])) != cells[position]:
                cells[position] = cell
                stale = True
        cells += map(self._read, rows[len(cells) :])
        self._version = version
        if stale:
            self._array = None
