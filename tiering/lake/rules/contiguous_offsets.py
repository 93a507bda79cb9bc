"""The offsets of a lake table's rows: gathered from batches as runs, and checked for gaps and doubles. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tiering.errors import CannotReconcile
from tiering.lake.log_starts import LogStart
from tiering.lake.proof.file_footer import sum_of

Place = tuple[str | None, int]
"""Name of the partition and bucket id. The name is None in a table without partitions."""


@dataclass(frozen=True)
class WrittenRows:
    """The totals of the footers of a place's files. `checksum` None: some of the rows are deleted, so it is not that of the live rows."""

    rows: int
    checksum: int | None


class RowOffsets:
    """Runs `[start, stop)` of offsets by place. Memory grows with the number of runs, not with the number of rows.

    For a primary-key table only the places are recorded: a row's offset is that of its last change, and tells nothing of other rows.
    """

    def __init__(self) -> None:
        self._runs: defaultdict[Place, list[tuple[int, int]]] = defaultdict(list)
        self._written: dict[Place, WrittenRows] = {}
        self._unknown: defaultdict[Place, list[tuple[int, int]]] = defaultdict(list)

    def add_place(self, place: Place) -> None:
        """Records that a place has rows, without their offsets."""
        self._runs[place].extend(())

    @property
    def places(self) -> frozenset[Place]:
        """The places that have rows."""
        return frozenset(self._runs)

    def add(self, place: Place, offsets: npt.NDArray[Any]) -> None:
        """Adds offsets of some rows of one place, in any order. A repeated offset makes runs that overlap."""
        if len(offsets):
            self._runs[place].extend(_runs_of(offsets))

    def add_with_times(self, place: Place, offsets: npt.NDArray[Any], times_ms: npt.NDArray[Any], begin: LogStart) -> None:
        """Adds offsets and commit times of rows of a place whose log begins at `begin`. Rows of a former partition are left out."""
        unknown = begin.unknown(offsets, times_ms)
        self.add(place, offsets[begin.own(times_ms) | unknown])
        if unknown.any():
            self._unknown[place].extend(_runs_of(offsets[unknown]))

    @property
    def has_unknown(self) -> bool:
        """Whether any place has rows that `unknown` returns."""
        return bool(self._unknown)

    def unknown(self, place: Place) -> RowOffsets:
        """Returns the rows of the place that either this partition or a former one of its name wrote."""
        rows = RowOffsets()
        for start, stop in self._unknown.get(place, ()):
            rows.add_run(place, start, stop)
        return rows

    def add_run(self, place: Place, start: int, stop: int) -> None:
        """Adds the offsets `[start, stop)` of a place."""
        if start < stop:
            self._runs[place].append((start, stop))

    def add_footer(self, place: Place, rows: int, checksum: int | None) -> None:
        """Adds row count and checksum of one file's footer. `checksum` is None if some of the file's rows are deleted."""
        totals = self._written.get(place, WrittenRows(0, 0))
        total = None if checksum is None or totals.checksum is None else sum_of((totals.checksum, checksum))
        self._written[place] = WrittenRows(totals.rows + rows, total)

    def written(self, place: Place) -> WrittenRows | None:
        """Returns the totals of a place's footers; None if its rows carry offsets themselves."""
        return self._written.get(place)

    def ranges(self) -> dict[Place, tuple[int, int]]:
        """Returns per place the one range that its rows fill. Raises CannotReconcile that names the first gap or doubled offset."""
        return {place: _contiguous_range(place, runs) for place, runs in self._runs.items()}

    def runs(self, place: Place) -> list[tuple[int, int]]:
        """Returns the runs of a place in order. Runs that overlap show rows with the same offset."""
        return sorted(self._runs.get(place, ()))

    def doubled(self, place: Place) -> int:
        """Returns how many rows of a place share their offset with an earlier row."""
        rows, reached = 0, None
        for begin, end in self.runs(place):
            if reached is not None and begin < reached:
                rows += min(end, reached) - begin
            reached = end if reached is None else max(end, reached)
        return rows

    def count(self, place: Place, start: int, stop: int) -> int:
        """Returns how many of the offsets `[start, stop)` the rows of a place have. A doubled offset counts once."""
        count = 0
        for begin, end in self.runs(place):
            first, last = max(begin, start), min(end, stop)
            if last > first:
                count += last - first
                start = last
        return count


def _runs_of(offsets: npt.NDArray[Any]) -> list[tuple[int, int]]:
    ordered = np.sort(offsets)
    breaks = np.flatnonzero(np.diff(ordered) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(ordered, breaks)]


def _contiguous_range(place: Place, runs: list[tuple[int, int]]) -> tuple[int, int]:
    ordered = sorted(runs)
    start, reached = ordered[0]
    if start < 0:
        raise _refused(place, f"has rows with the offset {start}: they did not come from the log")
    for begin, end in ordered[1:]:
        if begin < reached:
            raise _refused(place, f"holds the offset {begin} twice")
        if begin > reached:
            raise _refused(place, f"lacks the offsets {reached} to {begin - 1}, but holds {begin}")
        reached = end
    return start, reached


def _refused(place: Place, complaint: str) -> CannotReconcile:
    partition, bucket = place
    where = f"bucket {bucket}" if partition is None else f"bucket {bucket} of partition {partition}"
    return CannotReconcile(
        f"{where} {complaint}: no single offset tells where tiering continues",
        hint="Remove the doubled rows, or add the missing ones, first.",
    )
