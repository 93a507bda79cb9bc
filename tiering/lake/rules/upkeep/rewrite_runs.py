"""Which files of a bucket an upkeep round rewrites together. Pure.

Files are given in the order of their rows: by offset for a log table, by age for a primary-key table. Only neighbours are rewritten
together, so the order stays. One piece of work makes about one file of the target size. So it ends soon, and little is lost if a commit
cannot use it.

A file is rewritten
- if it is small (`small_files.is_small`) and so is a neighbour;
- if its deleted rows must be removed (`is_dirty`);
- with `full`, at any size, if a bucket has more files than it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tiering.lake.rules.upkeep.small_files import SMALL_SHARE, is_small

T = TypeVar("T")

FULL_SHARE = 1.25
"""A piece of work is not filled beyond this share of the target size, unless it would be small without the next file."""
OVERSIZE_SHARE = 1.8
"""With `full`, a file above this share of the target size is cut (Iceberg's `rewrite_data_files`, `max-file-size-bytes`)."""

DEAD_SHARE = 0.3
"""Share of deleted rows in a bucket above which its files are rewritten, because readers read too many rows in vain."""

RUN_FILES = 1_000
"""Upper bound of the files of one piece of work. Opening a file takes milliseconds, on object storage more, and a piece must end soon."""


@dataclass(frozen=True)
class LiveDataFile:
    """A live data file of one bucket. `is_fixed`: no rewrite may replace it."""

    size_bytes: int
    is_dirty: bool = False
    is_fixed: bool = False


@dataclass(frozen=True)
class RewriteRun:
    """Neighbouring files from position `first` up to but without `stop`, which `outputs` files replace."""

    first: int
    stop: int
    size_bytes: int
    outputs: int

    @property
    def files(self) -> int:
        """The number of files that are rewritten."""
        return self.stop - self.first


def runs_to_rewrite(files: Sequence[LiveDataFile], target_bytes: int, limit_bytes: int, *, full: bool) -> list[RewriteRun]:
    """Returns the pieces of work of one bucket. One piece reads at most `limit_bytes`, unless a single file is larger.

    A file about as large as the limit is not small, whatever the target is, because no piece could include it and another one.
    """
    reachable_bytes = min(target_bytes, limit_bytes)
    movable = [file for file in files if not file.is_fixed]
    ideal = outputs_of(sum(file.size_bytes for file in movable), target_bytes)
    takes_all = full and (len(movable) > ideal or any(file.size_bytes > OVERSIZE_SHARE * target_bytes for file in movable))
    is_selected = [not file.is_fixed and (takes_all or file.is_dirty or is_small(file.size_bytes, reachable_bytes)) for file in files]
    limit_bytes = min(int(FULL_SHARE * target_bytes), limit_bytes)
    runs: list[RewriteRun] = []
    for first, stop in _selected_ranges(is_selected):
        runs.extend(run for run in _pieces(files, first, stop, target_bytes, limit_bytes) if _helps(files, run, target_bytes))
    return runs


def outputs_of(size_bytes: int, target_bytes: int) -> int:
    """Returns how many files of about the target size hold `size_bytes`."""
    return max(1, round(size_bytes / target_bytes))


def _helps(files: Sequence[LiveDataFile], run: RewriteRun, target_bytes: int) -> bool:
    """Whether the piece reduces the number of files, removes deleted rows, or cuts a file that is too large."""
    members = files[run.first : run.stop]
    is_cut = run.outputs > 1 and any(file.size_bytes > OVERSIZE_SHARE * target_bytes for file in members)
    return run.outputs < run.files or is_cut or any(file.is_dirty for file in members)


def _selected_ranges(is_selected: Sequence[bool]) -> Iterator[tuple[int, int]]:
    first = 0
    for position, selected in enumerate([*is_selected, False]):
        if not selected:
            if position > first:
                yield first, position
            first = position + 1


def _pieces(files: Sequence[LiveDataFile], first: int, stop: int, target_bytes: int, limit_bytes: int) -> Iterator[RewriteRun]:
    begin, size = first, 0
    for position in range(first, stop):
        added = files[position].size_bytes
        is_filled = position > begin and size + added > limit_bytes and size >= SMALL_SHARE * min(target_bytes, limit_bytes)
        if is_filled or position - begin == RUN_FILES:
            yield RewriteRun(begin, position, size, outputs_of(size, target_bytes))
            begin, size = position, 0
        size += added
    yield RewriteRun(begin, stop, size, outputs_of(size, target_bytes))


@dataclass(frozen=True)
class BucketWork:
    """The pieces of work of one bucket. `gain`: how many fewer files readers have to open."""

    runs: Sequence[RewriteRun]
    dirty_files: int = 0

    @property
    def gain(self) -> int:
        return sum(run.files - run.outputs for run in self.runs) + self.dirty_files


def worst_first(buckets: Sequence[tuple[T, BucketWork]]) -> list[tuple[T, BucketWork]]:
    """Returns the buckets with work, the largest gain first."""
    return sorted((entry for entry in buckets if entry[1].runs), key=lambda entry: -entry[1].gain)
