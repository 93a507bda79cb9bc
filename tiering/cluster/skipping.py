"""Reading a log without the records that `CALL sys.skip_record` left out.

A record is left out because it cannot be decoded or written, so it is not read at all: what lies before it and behind it is read as
splits of their own.

A record is known by its trace, too: a log that was cut and has grown again has another record at the offset, and that one is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import pyarrow as pa

from tiering.cluster.base import SplitReader, SplitSource
from tiering.cluster.capabilities import CountingReader, uncounted
from tiering.cluster.log_look import traces_at
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketOffsets, SkippedRecords, TableInfo


def still_skipped(cluster: SplitSource, table: TableInfo, skipped: SkippedRecords) -> SkippedRecords:
    """`skipped` without the offsets at which the log has other records now. Where nothing can be compared, a record stays left out.

    A log is cut at its end: while a record is the same, so are all before it, and once it is another one, so are all behind it.
    Raises ClusterUnavailable, UnknownTable.
    """
    if not any(trace is not None for records in skipped.values() for trace in records.values()):
        return skipped
    ends, confirmed = cluster.offsets(table), {bucket: dict(records) for bucket, records in skipped.items()}
    places = {bucket: _comparable(skipped[bucket], ends[bucket]) for bucket in skipped if bucket in ends}
    while last := {bucket: offsets[-1] for bucket, offsets in places.items() if offsets}:
        now = traces_at(cluster, table, {bucket: offset + 1 for bucket, offset in last.items()})
        for bucket, offset in last.items():
            trace = now.get((bucket, offset + 1))
            places[bucket] = [] if trace == skipped[bucket][offset] else places[bucket][:-1]
            if trace not in (None, skipped[bucket][offset]):
                confirmed[bucket] = {before: known for before, known in confirmed[bucket].items() if before < offset}
    return confirmed


def _comparable(records: Mapping[int, str | None], log: BucketOffsets) -> list[int]:
    return sorted(offset for offset, trace in records.items() if trace is not None and log.log_start <= offset < log.log_end)


@dataclass(frozen=True)
class ReaderWithoutRecords:
    """A `SplitReader` of a log split that reads its parts one after the other. Pickles."""

    split: TieringLogSplit
    parts: tuple[SplitReader, ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        """As `SplitReader.read`; offsets of the records that are left out are gaps."""
        return self.read_counted(uncounted)

    def read_counted(self, count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        """As `CountingReader`."""
        for part in self.parts:
            yield from part.read_counted(count) if isinstance(part, CountingReader) else part.read()


def reader_without(open_reader: Callable[[TieringLogSplit], SplitReader], split: TieringLogSplit, skipped: Collection[int]) -> SplitReader:
    """The reader of `split` without the records at the offsets `skipped`. Raises what `open_reader` raises."""
    inside = sorted(offset for offset in skipped if split.starting_offset <= offset < split.stopping_offset)
    if not inside:
        return open_reader(split)
    ends = pairwise([split.starting_offset - 1, *inside, split.stopping_offset])
    parts = [replace(split, starting_offset=before + 1, stopping_offset=stop) for before, stop in ends if before + 1 < stop]
    return ReaderWithoutRecords(split, tuple(open_reader(part) for part in parts))
