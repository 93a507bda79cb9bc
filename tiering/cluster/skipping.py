"""Reads a log without the records that `CALL sys.skip_record` left out.

Such a record cannot be decoded or written, so it is not read at all: the records before it and behind it are read as splits of their own.

A record is also identified by its trace. If a log was cut and has grown again, another record has the offset, and that one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pyarrow as pa

from tiering.cluster.base import SplitReader, SplitSource
from tiering.cluster.capabilities import CountingReader, ResumableReader, read_columns, uncounted
from tiering.cluster.log_state import traces_at
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketOffsets, SkippedRecords, TableInfo

_MAX_FRUITLESS_READS = 8
"""Number of reads of a bucket that show no trace after which its remaining records stay left out. Some services have no traces at all."""


def still_skipped(cluster: SplitSource, table: TableInfo, skipped: SkippedRecords) -> SkippedRecords:
    """Returns `skipped` without the offsets at which the log has other records now. A record that cannot be compared stays left out.

    The number of reads grows with the logarithm of the number of records. Raises ClusterUnavailable, UnknownTable.
    """
    if not any(trace is not None for records in skipped.values() for trace in records.values()):
        return skipped
    ends, confirmed = cluster.offsets(table), {bucket: dict(records) for bucket, records in skipped.items()}
    searches = {bucket: _CutSearch(_comparable(skipped[bucket], ends[bucket])) for bucket in skipped if bucket in ends}
    while places := {bucket: offset for bucket, search in searches.items() if (offset := search.next_offset) is not None}:
        now = traces_at(cluster, table, {bucket: offset + 1 for bucket, offset in places.items()})
        for bucket, offset in places.items():
            trace = now.get((bucket, offset + 1))
            is_same = None if trace is None else trace == skipped[bucket][offset]
            searches[bucket].narrow(is_same)
            if is_same is False:
                confirmed[bucket] = {before: trace_before for before, trace_before in confirmed[bucket].items() if before < offset}
    return confirmed


def _comparable(records: Mapping[int, str | None], log: BucketOffsets) -> list[int]:
    return sorted(offset for offset, trace in records.items() if trace is not None and log.log_start <= offset < log.log_end)


class _CutSearch:
    """Finds the first of a bucket's records that was replaced by another record.

    A log is cut at its end. So if a record is unchanged, all records before it are unchanged; if it was replaced, all records behind it
    were replaced. The search reads the last record first, because usually all are unchanged. Records without a trace are usually the
    oldest, so after such a record the search continues behind it first.
    """

    def __init__(self, offsets: Sequence[int]) -> None:
        self._ranges = [offsets]  # in ascending order; the last one is searched first
        self._place = len(offsets) - 1
        self._fruitless = 0

    @property
    def next_offset(self) -> int | None:
        """The next offset to read; None when the search has ended."""
        return self._ranges[-1][self._place] if self._ranges and self._ranges[-1] else None

    def narrow(self, is_same: bool | None) -> None:
        """Records whether the record at `next_offset` is unchanged. None: the log does not show it."""
        offsets = self._ranges.pop()
        before, behind = offsets[: self._place], offsets[self._place + 1 :]
        if is_same is None:
            self._fruitless += 1
            self._ranges += [before, behind]
        else:
            self._ranges = [behind] if is_same else [*self._ranges, before]
        self._ranges = [part for part in self._ranges if part] if self._fruitless < _MAX_FRUITLESS_READS else []
        self._place = len(self._ranges[-1]) // 2 if self._ranges else 0


@dataclass(frozen=True)
class SkippingReader:
    """A `SplitReader` of a log split that reads its parts one after the other. Can be pickled.

    Implements `CountingReader` and `ProjectingReader`.
    """

    split: TieringLogSplit
    parts: tuple[SplitReader, ...]
    ranges: tuple[TieringLogSplit, ...] = ()
    """The split of each part."""

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows of all parts; offsets of the records that are left out are gaps. Implements `SplitReader.read`."""
        return self.read_counted(uncounted)

    def read_counted(self, count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        for part in self.parts:
            yield from part.read_counted(count) if isinstance(part, CountingReader) else part.read()

    def from_offset(self, offset: int) -> SkippingReader:
        """Returns a reader of the records from `offset` on (`ResumableReader`). All parts must be resumable."""
        parts: list[SplitReader] = []
        ranges: list[TieringLogSplit] = []
        for part, split in zip(self.parts, self.ranges, strict=True):
            start = max(offset, split.starting_offset)
            if start < split.stopping_offset and isinstance(part, ResumableReader):
                parts.append(part.from_offset(start))
                ranges.append(replace(split, starting_offset=start))
        return SkippingReader(replace(self.split, starting_offset=offset), tuple(parts), tuple(ranges))

    def read_columns(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for part in self.parts:
            yield from read_columns(part, columns)


def reader_without(open_reader: Callable[[TieringLogSplit], SplitReader], split: TieringLogSplit, skipped: Collection[int]) -> SplitReader:
    """Returns a reader of `split` that leaves out the records at the offsets `skipped`. Raises what `open_reader` raises."""
    inside = sorted(offset for offset in skipped if split.starting_offset <= offset < split.stopping_offset)
    if not inside:
        return open_reader(split)
    ends = pairwise([split.starting_offset - 1, *inside, split.stopping_offset])
    parts = [replace(split, starting_offset=before + 1, stopping_offset=stop) for before, stop in ends if before + 1 < stop]
    return SkippingReader(split, tuple(open_reader(part) for part in parts), tuple(parts))
