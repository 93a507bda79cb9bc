"""The log: appends that are published all or none, offsets, and which files hold a range.

An append writes its files first and gets its offsets in the one transaction that publishes them; so writers wait
for each other for that transaction only, and a crash before it leaves files that nobody reads.
"""

from __future__ import annotations

import itertools
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa

from tiering.cluster.embedded.base import AppendedRange
from tiering.cluster.embedded.bucketing import Bucketing, split_by_bucket
from tiering.cluster.embedded.catalog import StoredTable, from_us, table_exists, to_us
from tiering.cluster.embedded.metadata import Metadata, appends, buckets, segments
from tiering.cluster.embedded.segments import EncodedSegment, Segment, encode_segments, write_segments
from tiering.effects import Clock, Ids
from tiering.errors import ClusterUnavailable, InvalidArgument, UnknownTable
from tiering.model import BucketKey, BucketOffsets, Offsets, TableInfo

NO_LIMIT = -1
"""As SQLite has it."""


@dataclass(frozen=True)
class _Append:
    """One append, encoded: what it is before it has a place."""

    table: TableInfo
    writer_id: str
    sequence: int
    pieces: Sequence[tuple[int, EncodedSegment]]
    fingerprint: int


class Log:
    """All tables' logs."""

    def __init__(self, root: Path, metadata: Metadata, clock: Clock, ids: Ids) -> None:
        self._root = root
        self._metadata = metadata
        self._clock = clock
        self._ids = ids
        self._round_robin: Mapping[int, Iterator[int]] = defaultdict(itertools.count)

    def append(self, table: StoredTable, batch: pa.RecordBatch, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """As `EmbeddedCluster.append`, for rows that fit the table already."""
        if batch.num_rows == 0:
            return ()
        pieces = [(bucket, piece) for bucket, rows in self._place(table, batch) for piece in encode_segments(rows)]
        crcs = b"".join(piece.crc32.to_bytes(4, "big") for _, piece in pieces)
        append = _Append(table.info, writer_id, sequence, pieces, zlib.crc32(crcs))
        with self._metadata.read() as connection:
            earlier = _earlier(connection, append)
        return self._write_and_publish(append) if earlier is None else earlier

    def _place(self, table: StoredTable, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        count = table.info.bucket_count
        if table.bucketing is Bucketing.ROUND_ROBIN:
            return [(next(self._round_robin[table.info.table_id]) % count, batch)]
        return split_by_bucket(batch, table.bucketing, table.info.bucket_keys, count)

    def _write_and_publish(self, append: _Append) -> Sequence[AppendedRange]:
        named = [(self._ids.new_id(), piece) for _, piece in append.pieces]
        try:
            paths = write_segments(self._root, append.table.table_id, named)
        except OSError as error:
            raise ClusterUnavailable(f"cannot write to the log of {append.table.path}: {error}", hint="Is the disk full?") from error
        with self._metadata.write() as connection:
            ranges = _earlier(connection, append)
            if ranges is None and table_exists(connection, append.table.table_id):
                return _publish(connection, append, paths, to_us(self._clock.now()))
        # Only when nothing was published; after a failed commit the files stay until the next start, since it may have landed.
        for path in paths:
            (self._root / path).unlink(missing_ok=True)
        if ranges is None:
            raise UnknownTable(f"the table {append.table.path} was dropped", table_id=append.table.table_id)
        return ranges

    def offsets(self, table_id: int) -> dict[BucketKey, BucketOffsets]:
        """As `Cluster.offsets`."""
        query = sa.select(buckets).where(buckets.c.table_id == table_id).order_by(buckets.c.bucket_id)
        with self._metadata.read() as connection:
            rows = connection.execute(query).all()
        if not rows:
            raise UnknownTable(f"the table with id {table_id} is gone", table_id=table_id)
        return {
            BucketKey(None, row.bucket_id): BucketOffsets(row.log_start, row.log_end, row.size_bytes / max(1, row.log_end - row.log_start))
            for row in rows
        }

    def oldest_timestamps(self, table_id: int, offsets: Offsets) -> dict[BucketKey, datetime]:
        """As `Cluster.oldest_timestamps`: the commit times of the segments that hold the offsets."""
        found = {}
        with self._metadata.read() as connection:
            for bucket, offset in offsets.items():
                commit_us = connection.scalar(
                    sa.select(segments.c.commit_us)
                    .where(segments.c.starting_offset >= _segment_start(table_id, bucket.bucket_id, offset))
                    .where(_in_bucket(table_id, bucket.bucket_id), segments.c.stopping_offset > offset)
                    .order_by(segments.c.starting_offset)
                    .limit(1)
                )
                if commit_us is not None:
                    found[bucket] = from_us(commit_us)
        return found

    def segments(
        self, table_id: int, bucket: BucketKey, starting_offset: int, stopping_offset: int, limit: int = NO_LIMIT
    ) -> list[Segment]:
        """The first `limit` segments that hold records of the range, in order; all of them without a limit."""
        query = (
            sa.select(segments)
            .where(segments.c.starting_offset >= _segment_start(table_id, bucket.bucket_id, starting_offset))
            .where(_in_bucket(table_id, bucket.bucket_id), segments.c.starting_offset < stopping_offset)
            .where(segments.c.stopping_offset > starting_offset)
            .order_by(segments.c.starting_offset)
            .limit(limit)
        )
        with self._metadata.read() as connection:
            rows = connection.execute(query).all()
        return [Segment(row.path, row.starting_offset, row.stopping_offset, row.size_bytes, row.crc32, row.commit_us) for row in rows]


def _in_bucket(table_id: int, bucket_id: int) -> sa.ColumnElement[bool]:
    return (segments.c.table_id == table_id) & (segments.c.bucket_id == bucket_id)


def _segment_start(table_id: int, bucket_id: int, offset: int) -> sa.ColumnElement[int]:
    """Where the segment that holds `offset` starts: found by the primary key, however long the log is."""
    newest = sa.select(sa.func.max(segments.c.starting_offset)).where(_in_bucket(table_id, bucket_id), segments.c.starting_offset <= offset)
    return sa.func.coalesce(newest.scalar_subquery(), 0)


def _earlier(connection: sa.Connection, append: _Append) -> Sequence[AppendedRange] | None:
    """The ranges this (writer_id, sequence) got before; raises InvalidArgument if it brought other rows then."""
    row = connection.execute(
        sa.select(appends.c.fingerprint, appends.c.ranges).where(
            appends.c.table_id == append.table.table_id,
            appends.c.writer_id == append.writer_id,
            appends.c.sequence == append.sequence,
        )
    ).first()
    if row is None:
        return None
    if row.fingerprint != append.fingerprint:
        raise InvalidArgument(
            f"writer {append.writer_id!r} appended other rows to {append.table.path} as number {append.sequence} before",
            hint="A writer id belongs to one source of rows; take a new one.",
        )
    return [AppendedRange(BucketKey(None, bucket), start, stop) for bucket, start, stop in row.ranges]


def _publish(connection: sa.Connection, append: _Append, paths: Sequence[str], now_us: int) -> Sequence[AppendedRange]:
    by_bucket: dict[int, list[tuple[EncodedSegment, str]]] = defaultdict(list)
    for (bucket_id, piece), path in zip(append.pieces, paths, strict=True):
        by_bucket[bucket_id].append((piece, path))
    ranges = [
        _publish_bucket(connection, append.table.table_id, bucket_id, by_bucket[bucket_id], now_us) for bucket_id in sorted(by_bucket)
    ]
    connection.execute(
        sa.insert(appends).values(
            table_id=append.table.table_id,
            writer_id=append.writer_id,
            sequence=append.sequence,
            fingerprint=append.fingerprint,
            ranges=[[r.bucket.bucket_id, r.starting_offset, r.stopping_offset] for r in ranges],
        )
    )
    return ranges


def _publish_bucket(
    connection: sa.Connection, table_id: int, bucket_id: int, pieces: Sequence[tuple[EncodedSegment, str]], now_us: int
) -> AppendedRange:
    here = (buckets.c.table_id == table_id) & (buckets.c.bucket_id == bucket_id)
    bucket = connection.execute(sa.select(buckets).where(here)).one()
    commit_us = max(now_us, bucket.last_commit_us)  # a clock that was set back must not make later records older
    stops = list(itertools.accumulate((piece.records for piece, _ in pieces), initial=bucket.log_end))
    rows = [
        {
            "table_id": table_id,
            "bucket_id": bucket_id,
            "starting_offset": start,
            "stopping_offset": stop,
            "path": path,
            "size_bytes": piece.content.size,
            "crc32": piece.crc32,
            "commit_us": commit_us,
        }
        for (piece, path), start, stop in zip(pieces, stops, stops[1:], strict=False)
    ]
    connection.execute(sa.insert(segments), rows)
    size_bytes = bucket.size_bytes + sum(piece.content.size for piece, _ in pieces)
    connection.execute(sa.update(buckets).where(here).values(log_end=stops[-1], size_bytes=size_bytes, last_commit_us=commit_us))
    return AppendedRange(BucketKey(None, bucket_id), bucket.log_end, stops[-1])
