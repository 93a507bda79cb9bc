"""Merges sorted runs of a primary-key table: for each key the row with the highest sequence number stays.

The runs are read in parallel, one batch of each at a time. Rows up to the lowest last key of the batches are complete, so memory is bounded
by some batches of each run. Rows keep their sequence numbers and kinds, so readers see the same result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tiering.lake.paimon.writing.sorted_files import KIND, SEQUENCE, TAKES_AWAY
from tiering.lake.writing.keys import plain


def merged_rows(runs: Sequence[Iterator[pa.Table]], names: Sequence[str], *, drops_deletes: bool) -> Iterator[pa.Table]:
    """Yields the remaining rows, in the order of their keys, which are the columns `names`. `drops_deletes` leaves out delete rows, which
    is correct only if no older run remains in the bucket.
    """
    cursors = [_Cursor(run, names) for run in runs]
    while remaining := [cursor for cursor in cursors if cursor.has_rows()]:
        ends = [cursor.last_key for cursor in remaining if not cursor.is_last]
        end = min(ends, key=lambda key: key.order) if ends else None
        rows = pa.concat_tables([cursor.take_until(end) for cursor in remaining])
        newest = _newest_of_each_key(rows, names)
        if drops_deletes:
            newest = newest.filter(pc.invert(pc.is_in(newest[KIND], value_set=TAKES_AWAY)))
        if newest.num_rows:
            yield newest.combine_chunks()


def _newest_of_each_key(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in (*names, SEQUENCE)])
    in_order = rows.take(cast(Any, order)).combine_chunks()
    if in_order.num_rows < 2:
        return in_order
    differs = [
        pc.not_equal(in_order[name].slice(0, in_order.num_rows - 1), in_order[name].slice(1)).to_numpy().astype(bool) for name in names
    ]
    return in_order.filter(pa.array(np.append(np.logical_or.reduce(differs), True)))


@dataclass(frozen=True)
class _Key:
    """A key as Arrow scalars, and as values that Python compares in the same order."""

    scalars: tuple[Any, ...]
    order: tuple[Any, ...]


class _Cursor:
    """The rows of one sorted run, a batch at a time."""

    def __init__(self, batches: Iterator[pa.Table], names: Sequence[str]) -> None:
        self._batches = batches
        self._names = names
        self._rows = next(batches, None)
        self._following = next(batches, None)

    def has_rows(self) -> bool:
        """Returns whether a row is left; if so, the current batch has rows afterwards."""
        if self._rows is None or not self._rows.num_rows:
            self._rows, self._following = self._following, next(self._batches, None)
        return self._rows is not None

    @property
    def is_last(self) -> bool:
        """Returns whether no batch follows the current one."""
        return self._following is None

    @property
    def last_key(self) -> _Key:
        assert self._rows is not None
        scalars = tuple(self._rows[name][-1] for name in self._names)
        return _Key(scalars, tuple(plain(scalar) for scalar in scalars))

    def take_until(self, end: _Key | None) -> pa.Table:
        """Removes and returns the rows of the current batch whose key is at most `end`; None = all."""
        rows = self._rows
        assert rows is not None
        count = rows.num_rows if end is None else int(_up_to(rows, self._names, end).sum())
        self._rows = rows.slice(count)
        return rows.slice(0, count)


def _up_to(rows: pa.Table, names: Sequence[str], end: _Key) -> Any:
    """Returns for each row whether its key is at most `end`."""
    columns = list(zip(names, end.scalars, strict=True))
    name, value = columns[-1]
    at_most = _numpy(pc.less_equal(rows[name], value))

    def within(result: Any, column: tuple[str, Any]) -> Any:
        outer, bound = column
        return _numpy(pc.less(rows[outer], bound)) | (_numpy(pc.equal(rows[outer], bound)) & result)

    return reduce(within, reversed(columns[:-1]), at_most)


def _numpy(mask: Any) -> Any:
    return mask.to_numpy().astype(bool)
