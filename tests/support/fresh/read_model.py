"""The rows that a table has at each end of its log: the model with which union reads are compared."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tiering.cluster.writable import AppendedRange
from tiering.model.tables import BucketKey, Offsets, TableInfo

Row = tuple[Any, ...]
"""Values of the table's columns in their order."""


@dataclass
class _Bucket:
    """Ends of a bucket's log at which a write ended, ascending, and the rows that the bucket has at each of them, by place."""

    ends: list[int] = field(default_factory=lambda: [0])
    versions: list[Mapping[Any, Row]] = field(default_factory=lambda: [{}])

    def add(self, end: int, rows: Mapping[Any, Row]) -> None:
        self.ends.append(end)
        self.versions.append(rows)

    def at(self, end: int) -> Mapping[Any, Row]:
        place = bisect_right(self.ends, end) - 1
        assert self.ends[place] == end, f"offset {end} is within a write: writes ended at {self.ends}"
        return self.versions[place]


class TableModel:
    """A table and its rows. The writer passes the ranges that the cluster acknowledged."""

    def __init__(self, table: TableInfo) -> None:
        self.table = table
        self._buckets: dict[BucketKey, _Bucket] = {}
        self._places = 0

    @property
    def ends(self) -> Offsets:
        """The acknowledged ends of the log."""
        return {bucket: state.ends[-1] for bucket, state in self._buckets.items()}

    def appended(self, rows: Sequence[Row], written: AppendedRange) -> None:
        """Notes rows that a log table has in one range."""
        assert written.stopping_offset - written.starting_offset == len(rows)
        bucket = self._bucket(written)
        new = {self._next_place(): row for row in rows}
        bucket.add(written.stopping_offset, {**bucket.versions[-1], **new})

    def changed(self, key: Row, row: Row | None, written: AppendedRange) -> None:
        """Notes the present row of a key; None = it was deleted."""
        bucket = self._bucket(written)
        rows = {place: kept for place, kept in bucket.versions[-1].items() if place != key}
        bucket.add(written.stopping_offset, rows if row is None else {**rows, key: row})

    def rows_at(self, ends: Offsets) -> Counter[Row]:
        """Returns the rows of the table at these ends of its log."""
        return Counter(row for bucket, end in ends.items() for row in self._bucket_of(bucket).at(end).values())

    def check_between(self, rows: Counter[Row], before: Offsets, after: Offsets) -> None:
        """Raises AssertionError unless the rows are those of one end of each bucket that is neither below `before` nor above `after`. Each
        row is in one bucket only."""
        unexplained = Counter(rows)
        for bucket, last in after.items():
            first, state = before.get(bucket, 0), self._bucket_of(bucket)
            versions = [version for end, version in zip(state.ends, state.versions, strict=True) if first <= end <= last]
            own = {row for version in state.versions for row in version.values()}
            answer = Counter({row: times for row, times in rows.items() if row in own})
            assert any(answer == Counter(version.values()) for version in versions), (
                f"bucket {bucket} has {answer}, which are its rows at no end of [{first}, {last}]: {versions}"
            )
            unexplained -= answer
        assert not unexplained, f"rows that were never written: {unexplained}"

    def _bucket(self, written: AppendedRange) -> _Bucket:
        bucket = self._bucket_of(written.bucket)
        assert bucket.ends[-1] == written.starting_offset, "another program wrote into the table"
        return bucket

    def _bucket_of(self, bucket: BucketKey) -> _Bucket:
        return self._buckets.setdefault(bucket, _Bucket())

    def _next_place(self) -> int:
        self._places += 1
        return self._places


def rows_of(table: pa.Table) -> Counter[Row]:
    """Returns the rows of an Arrow table, with the number of times that each occurs."""
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
