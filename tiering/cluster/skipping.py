"""Reads a log without the records that `CALL sys.skip_record` left out.

Such a record cannot be decoded or written, so it is not read at all: the records before it and behind it are read as splits of their own.

A record is also identified by its trace. If a log was cut and has grown again, another record has the offset, and that one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pyarrow as pa

from tiering.cluster.base import SplitReader, SplitSource
from tiering.cluster.capabilities import CountingReader, ResumableReader, read_columns, uncounted
from tiering.cluster.log_state import traces_at
from tiering.errors import BucketStopped
from tiering.model.refused_records import may_come_from_a_value
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, BucketOffsets, SkippedRecords, TableInfo

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


@dataclass(frozen=True)
class MarkedRecords:
    """Records of a log that markers name, and how reads treat them.

    `skipped`: no read returns them. `put_aside`: dead letters. A read that needs the log at their offsets began before rounds put them
    aside, so it returns them, as it would have then. It leaves out those that the cluster cannot decode.
    """

    skipped: Mapping[BucketKey, Collection[int]] = field(default_factory=dict)
    put_aside: Mapping[BucketKey, Collection[int]] = field(default_factory=dict)


def marked_records(
    cluster: SplitSource, table: TableInfo, skipped: SkippedRecords, put_aside: Mapping[BucketKey, Collection[int]]
) -> MarkedRecords:
    """Returns the records that the log still has (`still_skipped`). `put_aside`: those in `skipped` that no user left out.

    Raises ClusterUnavailable, UnknownTable.
    """
    present = still_skipped(cluster, table, skipped)
    aside = {bucket: offsets.keys() & put_aside.get(bucket, ()) for bucket, offsets in present.items()}
    return MarkedRecords({bucket: offsets.keys() - aside[bucket] for bucket, offsets in present.items()}, aside)


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


@dataclass(frozen=True)
class UncertainRecord:
    """Reads one record, or nothing if the cluster cannot decode it. Can be pickled. Implements `ResumableReader`."""

    split: TieringLogSplit
    reader: SplitReader

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the record. Raises the errors of the reader that come from no value. Implements `SplitReader.read`."""
        try:
            batches = list(self.reader.read())
        except Exception as error:  # a record that cannot be decoded fails in any way
            if not isinstance(error, BucketStopped) and not may_come_from_a_value(error):
                raise
            return
        yield from batches

    def from_offset(self, offset: int) -> UncertainRecord:
        return self


def reader_without(
    open_reader: Callable[[TieringLogSplit], SplitReader],
    split: TieringLogSplit,
    skipped: Collection[int],
    uncertain: Collection[int] = (),
) -> SplitReader:
    """Returns a reader of `split` that leaves out the records at the offsets `skipped`, and those at `uncertain` that cannot be decoded.

    Raises what `open_reader` raises.
    """
    left_out, alone = ({at for at in offsets if split.starting_offset <= at < split.stopping_offset} for offsets in (skipped, uncertain))
    if not left_out and not alone:
        return open_reader(split)
    parts: list[SplitReader] = []
    ranges: list[TieringLogSplit] = []
    for before, stop in pairwise([split.starting_offset - 1, *sorted(left_out | alone), split.stopping_offset]):
        if before + 1 < stop:
            ranges.append(replace(split, starting_offset=before + 1, stopping_offset=stop))
            parts.append(open_reader(ranges[-1]))
        if stop in alone - left_out:
            ranges.append(replace(split, starting_offset=stop, stopping_offset=stop + 1))
            parts.append(UncertainRecord(ranges[-1], open_reader(ranges[-1])))
    return SkippingReader(split, tuple(parts), tuple(ranges))
