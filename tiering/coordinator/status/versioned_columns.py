"""Columns that are kept between reads, over rows of which few change. A cell is computed again when its row is another object.

Rows have positions, and a version is all rows at one time. A column moves from its present version to the requested one, older or newer, by
the positions that differ. Returned arrays never change. The classes are not thread-safe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, compress, count
from operator import is_not
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.coordinator.interface import AnyArray

RowT = TypeVar("RowT")
Positions = npt.NDArray[np.int64]

FEWEST_REMEMBERED = 1_000
"""Smallest number of changed positions that are remembered. With more rows, as many as there are rows."""


@dataclass(frozen=True, eq=False)
class Version(Generic[RowT]):
    """All rows at one time."""

    number: int
    rows: Sequence[RowT]


class Versions(Generic[RowT]):
    """The latest version, and the positions at which earlier versions differ from it."""

    def __init__(self) -> None:
        self.latest: Version[RowT] = Version(0, [])
        self._steps: deque[tuple[int, Sequence[int]]] = deque()
        self._remembered = 0
        self._forgotten = 0

    def advance(self, rows: Sequence[RowT]) -> Version[RowT]:
        """Makes `rows` the latest version and returns it."""
        before = self.latest
        if rows is not before.rows:
            changed = _changed_positions(before.rows, rows)
            grown = range(*sorted((len(before.rows), len(rows))))
            self.latest = Version(before.number + 1, rows)
            if changed or grown:
                self._remember([*changed, *grown])
        return self.latest

    def between(self, left: Version[RowT], right: Version[RowT]) -> Iterable[int] | None:
        """Returns the positions at which two versions may differ, in no order; None if one is so old that all may differ."""
        first, last = sorted((left.number, right.number))
        if first < self._forgotten:
            return None
        return set(chain.from_iterable(positions for number, positions in self._steps if first < number <= last))

    def _remember(self, positions: Sequence[int]) -> None:
        self._steps.append((self.latest.number, positions))
        self._remembered += len(positions)
        while self._remembered > max(FEWEST_REMEMBERED, len(self.latest.rows)):
            number, dropped = self._steps.popleft()
            self._forgotten = number
            self._remembered -= len(dropped)


class VersionedColumn(Generic[RowT]):
    """One column of all rows. `read` computes a row's cell, a value that pyarrow accepts for `kind`."""

    def __init__(self, versions: Versions[RowT], kind: pa.DataType, read: Callable[[RowT], Any]) -> None:
        self._versions = versions
        self._kind = kind
        self._read = read
        self._version: Version[RowT] | None = None
        self._cells: list[Any] = []
        self._array: AnyArray | None = None
        self._selection: tuple[Version[RowT], Positions, AnyArray] | None = None

    def array(self, version: Version[RowT]) -> AnyArray:
        """Returns the column of this version."""
        if self._version is not version:
            self._renew(version)
        if self._array is None:
            self._array = pa.array(self._cells, type=self._kind)
        return self._array

    def cached(self, version: Version[RowT], positions: Positions) -> AnyArray | None:
        """Returns the result of `at` if it is cached, otherwise None. Unlike all other methods, any thread may call it at any time."""
        selection = self._selection
        return selection[2] if selection is not None and selection[0] is version and selection[1] is positions else None

    def at(self, version: Version[RowT], positions: Positions) -> AnyArray:
        """Returns the cells at `positions`, and caches them for the next call with the same positions."""
        array, selection = self.array(version), self._selection
        cells = selection[2] if selection is not None and selection[1] is positions else array.take(pa.array(positions))
        self._selection = (version, positions, cells)
        return cells

    def _renew(self, version: Version[RowT]) -> None:
        differing = None if self._version is None else self._versions.between(self._version, version)
        rows, cells = version.rows, self._cells
        stale = differing is None or len(cells) != len(rows)
        del cells[len(rows) :]
        for position in range(len(cells)) if differing is None else differing:
            if position < len(cells) and (cell := self._read(rows[position])) != cells[position]:
                cells[position] = cell
                stale = True
        cells += map(self._read, rows[len(cells) :])
        self._version = version
        if stale:
            self._array = self._selection = None


def _changed_positions(before: Sequence[object], after: Sequence[object]) -> list[int]:
    """Returns the positions, within the shorter sequence, whose row is another object."""
    return list(compress(count(), map(is_not, before, after)))
