"""Upkeep of a simulated lake: files that rounds rewrite, whether a rewrite still fits, and snapshots that expire with a commit."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from support.lakes.memory_lake import MemoryTable, Range
from tiering.lake.base import FileRewrite
from tiering.lake.rules.upkeep.snapshot_expiry import TableHistory, TableSnapshot, expired_snapshots
from tiering.model.tables import BucketKey, SnapshotRetention

RETENTION = SnapshotRetention(max_age_ms=1, min_count=4)
NOW_MS = 1_000_000
"""All snapshots of the simulated lake were committed at 0: each is old enough to expire."""
MERGED_FILES = 1
"""Most files of a bucket that a tiering round rewrites: stories are short, and few buckets get more."""


@dataclass(frozen=True)
class Rewrite:
    """One file that takes the place of others with the same rows."""

    file: str
    rows: tuple[Range, ...]
    """Rows in the order of the old files."""

    @property
    def replaced(self) -> frozenset[str]:
        return frozenset(file for *_, file in self.rows)


def rows_by_bucket(rows: Iterable[Range], buckets: Collection[BucketKey]) -> Mapping[BucketKey, tuple[Range, ...]]:
    """The rows of these buckets in files that hold rows of one bucket alone."""
    of_files = defaultdict[str, set[BucketKey]](set)
    for bucket, *_, file in rows:
        of_files[file].add(bucket)
    ranges_of = defaultdict[BucketKey, list[Range]](list)
    for row in rows:
        if row[0] in buckets and len(of_files[row[3]]) == 1:
            ranges_of[row[0]].append(row)
    return {bucket: tuple(sorted(ranges, key=lambda row: row[1:])) for bucket, ranges in ranges_of.items()}


def files_in(rows: Iterable[Range]) -> int:
    return len({file for *_, file in rows})


def rewritten(rewrite: Rewrite) -> FileRewrite:
    """Returns the rewrite in the form in which a round carries it."""
    rows = [(str(bucket), start, stop, file) for bucket, start, stop, file in rewrite.rows]
    files = files_in(rewrite.rows)
    return FileRewrite(rewrite.rows[0][0], json.dumps([rewrite.file, rows]).encode(), files, 1, files, 1)


def rewrite_in(carried: FileRewrite) -> Rewrite:
    """The inverse."""
    file, rows = json.loads(carried.payload)
    return Rewrite(file, tuple((carried.bucket, start, stop, old) for _, start, stop, old in rows))


def fits(rewrite: Rewrite, head: Collection[Range]) -> bool:
    """Whether the old files have the same rows in the head as when they were rewritten."""
    return {row for row in head if row[3] in rewrite.replaced} == set(rewrite.rows)


def with_rewrites(rows: Collection[Range], rewrites: Collection[Rewrite]) -> tuple[Range, ...]:
    """The rows behind the rewrites; old files that are gone already are no hindrance, as in a real commit."""
    replaced = frozenset[str]().union(*(rewrite.replaced for rewrite in rewrites))
    added = [(bucket, start, stop, rewrite.file) for rewrite in rewrites for bucket, start, stop, _ in rewrite.rows]
    return (*(row for row in rows if row[3] not in replaced), *added)


def removable(table: MemoryTable, tiered: int | None) -> tuple[int, ...]:
    """The snapshots that a commit on the table's head removes (`commit.upkeep.upkeep_of`)."""
    if table.head is None or tiered is None:
        return ()
    snapshots = [TableSnapshot(row.snapshot_id, row.parent_id, row.sequence_number, 0, True) for row in table.snapshots.values()]
    return tuple(expired_snapshots(TableHistory(snapshots, table.head, tiered), RETENTION, NOW_MS))
