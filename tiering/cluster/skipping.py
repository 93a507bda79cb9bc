"""Reading a log without the records that `CALL sys.skip_record` left out.

A record is left out because it cannot be decoded or written, so it is not read at all: what lies before it and behind it is read as
splits of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import pyarrow as pa

from tiering.cluster.base import SplitReader
from tiering.cluster.capabilities import CountingReader, uncounted
from tiering.model.splits import TieringLogSplit


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
