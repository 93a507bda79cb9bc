"""Measures of a lake table's files, deletes, snapshots and manifests, from its metadata. No data file is read.

A lake counts its live files by `FilePlace`. `file_totals` sums them. `score` judges the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

import pyarrow as pa

from tiering.lake.base import LakeView
from tiering.lake.rules.upkeep.rewrite_runs import DEAD_SHARE
from tiering.lake.rules.upkeep.small_files import SMALL_FILES, is_small
from tiering.model.tables import TableInfo

REST_MS = 3_600_000
"""A place that got no new file for this time usually gets no more rows, so merging its files once is enough."""


@dataclass
class FilePlace:
    """The live files that a compaction may merge with each other, counted one by one.

    These are the files of one bucket of a partition. Where buckets share files, they are the files of a partition, and `buckets` is the
    number of its buckets. `dead_rows` is None if the metadata does not tell how many rows are deleted or replaced. `is_at_rest`: the place
    got no file for `REST_MS` while the rest of the table did, such as the partition of a past day.
    """

    target_bytes: int
    buckets: int = 1
    files: int = 0
    size_bytes: int = 0
    small_files: int = 0
    small_bytes: int = 0
    rows: int = 0
    delete_files: int = 0
    dead_rows: int | None = 0
    is_at_rest: bool = False

    def add_data_file(self, size_bytes: int, rows: int, *, is_merged_by_readers: bool = False) -> None:
        """Counts a data file. `is_merged_by_readers`: a scan merges its rows with those of other files, so it counts as small."""
        self.files += 1
        self.size_bytes += size_bytes
        self.rows += rows
        if is_merged_by_readers or is_small(size_bytes, self.target_bytes):
            self.small_files += 1
            self.small_bytes += size_bytes

    def add_delete_file(self, dead_rows: int | None) -> None:
        """Counts a delete file. `dead_rows` None: the metadata does not tell how many rows it deletes."""
        self.delete_files += 1
        self.dead_rows = None if self.dead_rows is None or dead_rows is None else self.dead_rows + dead_rows

    @property
    def ideal_files(self) -> int:
        """The number of files after a compaction: the bytes divided by the target size, at least one for each bucket that has files."""
        return max(min(self.files, self.buckets), -(-self.size_bytes // self.target_bytes))

    @property
    def surplus_files(self) -> int:
        """The number of small files beyond those that the buckets may have.

        Each bucket may have as many as the rounds that merge small files leave, and one more: the last file is small after any compaction.
        If that file counted, an upkeep round would rewrite a whole small table every few minutes, after each file of a round. No round adds
        files to a place at rest, so there only that one file is healthy.
        """
        healthy = 1 if self.is_at_rest else SMALL_FILES + 1
        return max(0, self.small_files - healthy * self.buckets)

    @property
    def rewrite_bytes(self) -> int:
        """The bytes that a compaction rewrites: all data files if many rows are deleted, the small files if they are too many."""
        if self.dead_rows and self.dead_rows > DEAD_SHARE * self.rows:
            return self.size_bytes
        return self.small_bytes if self.surplus_files else 0


@dataclass(frozen=True)
class FileTotals:
    """The sums over the live files of a lake table. Crowded buckets have more small files than they may have."""

    target_bytes: int
    data_files: int = 0
    data_bytes: int = 0
    buckets: int = 0
    ideal_files: int = 0
    small_files: int = 0
    surplus_files: int = 0
    crowded_files: int = 0
    """Number of small files in crowded buckets."""
    crowded_buckets: int = 0
    delete_files: int = 0
    rows: int = 0
    """Number of rows of the data files, including deleted ones."""
    dead_rows: int | None = 0
    """Number of deleted and replaced rows among them; None = unknown."""
    rewrite_bytes: int = 0

    @property
    def healthy_files(self) -> int:
        """The number of data files that is healthy: those that a compaction leaves, and the small ones that rounds may add."""
        return self.ideal_files + SMALL_FILES * self.buckets

    @property
    def average_bytes(self) -> int | None:
        """The average size of a data file; None without data files."""
        return self.data_bytes // self.data_files if self.data_files else None

    @property
    def dead_share(self) -> float | None:
        """The share of rows that are deleted or replaced, from 0 to 1; None = unknown."""
        if self.dead_rows is None:
            return None
        return min(1.0, self.dead_rows / self.rows) if self.rows else 0.0


@dataclass(frozen=True)
class LakeMeasure:
    """The measures of a lake table at its head, from its metadata. None = unknown."""

    files: FileTotals
    snapshots: int
    oldest_snapshot_time: datetime | None
    manifests: int
    """Number of manifests that a scan of the head reads."""
    metadata_files: int
    """Number of files in the table's metadata folders, including those that no snapshot names."""
    metadata_bytes: int
    columns: pa.Schema | None = None


@runtime_checkable
class MeasuredLake(Protocol):
    """A lake that measures a table's health from its metadata."""

    def measure(self, table: TableInfo, view: LakeView) -> LakeMeasure:
        """Reads the manifests of `view`'s head and lists the metadata files. Raises LakeUnavailable."""


def file_totals(places: Iterable[FilePlace], target_bytes: int) -> FileTotals:
    """Returns the sums over the places of one table."""
    all_places = list(places)
    filled = [place for place in all_places if place.files]
    crowded = [place for place in filled if place.surplus_files]
    dead_rows = [place.dead_rows for place in all_places]
    known_dead_rows = [rows for rows in dead_rows if rows is not None]
    return FileTotals(
        target_bytes=target_bytes,
        data_files=sum(place.files for place in filled),
        data_bytes=sum(place.size_bytes for place in filled),
        buckets=sum(place.buckets for place in filled),
        ideal_files=sum(place.ideal_files for place in filled),
        small_files=sum(place.small_files for place in filled),
        surplus_files=sum(place.surplus_files for place in crowded),
        crowded_files=sum(place.small_files for place in crowded),
        crowded_buckets=sum(place.buckets for place in crowded),
        delete_files=sum(place.delete_files for place in all_places),
        rows=sum(place.rows for place in filled),
        dead_rows=sum(known_dead_rows) if len(known_dead_rows) == len(dead_rows) else None,
        rewrite_bytes=sum(place.rewrite_bytes for place in filled),
    )
