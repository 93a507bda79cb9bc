"""The log: appends that are published all or none, offsets, and which files hold a range.

An append writes its files first and gets its offsets in the one transaction that publishes them; so writers wait
for each other for that transaction only, and a crash before it leaves files that nobody reads.
"""

from __future__ import annotations

import itertools
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from tiering.cluster.embedded.base import AppendedRange
from tiering.cluster.embedded.bucketing import Bucketing
from tiering.cluster.embedded.catalog import StoredTable, from_us, table_exists, to_us
from tiering.cluster.embedded.metadata import NO_PARTITION, Metadata, appends, buckets, segments
from tiering.cluster.embedded.partitions import ensure_partitions
from tiering.cluster.embedded.placing import place_rows
from tiering.cluster.embedded.segments import EncodedSegment, Segment, encode_segments, write_segments
from tiering.effects import Clock, Ids
from tiering.errors import BadRequest, ClusterUnavailable, InvalidArgument, UnknownTable
from tiering.model import BucketKey, BucketOffsets, Offsets, TableInfo

NO_LIMIT = -1
"""As SQLite has it."""


@dataclass(frozen=True)
class _Append:
    """One append, encoded: what it is before it has a place."""

    table: TableInfo
    writer_id: str
    sequence: int
    pieces: Sequence[_Piece]
    columns: int
    fingerprint: int


@dataclass(frozen=True)
class _Piece:
    partition_name: str | None
    bucket_id: int
    segment: EncodedSegment


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
        turn = next(self._round_robin[table.info.table_id]) if table.bucketing is Bucketing.ROUND_ROBIN else 0
        placed = place_rows(table.info, table.bucketing, batch, turn)
        pieces = [_Piece(part.partition_name, part.bucket_id, segment) for part in placed for segment in encode_segments(part.rows)]
        crcs = b"".join(piece.segment.crc32.to_bytes(4, "big") for piece in pieces)
        append = _Append(table.info, writer_id, sequence, pieces, batch.num_columns, zlib.crc32(crcs))
        with self._metadata.read() as connection:
            earlier = _earlier(connection, append)
        return self._write_and_publish(append) if earlier is None else earlier

    def _write_and_publish(self, append: _Append) -> Sequence[AppendedRange]:
        named = [(self._ids.new_id(), piece.segment) for piece in append.pieces]
        try:
            paths = write_segments(self._root, append.table.table_id, named)
        except OSError as error:
            raise ClusterUnavailable(f"cannot write to the log of {append.table.path}: {error}", hint="Is the disk full?") from error
        with self._metadata.write() as connection:
            ranges = _earlier(connection, append)
            if ranges is None and table_exists(connection, append.table.table_id):
                with self._removed_if_refused(paths):
                    return _publish(connection, append, paths, to_us(self._clock.now()))
        self._remove(paths)
        if ranges is None:
            raise UnknownTable(f"the table {append.table.path} was dropped", table_id=append.table.table_id)
        return ranges

    @contextmanager
    def _removed_if_refused(self, paths: Sequence[str]) -> Iterator[None]:
        """Only what was certainly not published: after a failed commit files stay until the next start, since it may have landed."""
        try:
            yield
        except BadRequest:
            self._remove(paths)
            raise

    def _remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            (self._root / path).unlink(missing_ok=True)

    def offsets(self, table_id: int) -> dict[BucketKey, BucketOffsets]:
        """As `Cluster.offsets`."""
        query = sa.select(buckets).where(buckets.c.table_id == table_id).order_by(buckets.c.partition_id, buckets.c.bucket_id)
        with self._metadata.read() as connection:
            rows = connection.execute(query).all()
            if not rows and not table_exists(connection, table_id):
                raise UnknownTable(f"the table with id {table_id} is gone", table_id=table_id)
        return {_bucket_key(row.partition_id, row.bucket_id): _bounds(row) for row in rows}

    def bounds(self, table_id: int, bucket: BucketKey) -> BucketOffsets | None:
        """Start and end of one bucket's log; None = no such bucket. Raises UnknownTable."""
        with self._metadata.read() as connection:
            row = connection.execute(sa.select(buckets).where(_in_bucket(buckets, table_id, bucket))).first()
            if row is None and not table_exists(connection, table_id):
                raise UnknownTable(f"the table with id {table_id} is gone", table_id=table_id)
        return None if row is None else _bounds(row)

    def oldest_timestamps(self, table_id: int, offsets: Offsets) -> dict[BucketKey, datetime]:
        """As `Cluster.oldest_timestamps`: the commit times of the segments that hold the offsets."""
        found = {}
        ends = sa.select(buckets.c.partition_id, buckets.c.bucket_id, buckets.c.log_end).where(buckets.c.table_id == table_id)
        with self._metadata.read() as connection:
            log_ends = {_bucket_key(row.partition_id, row.bucket_id): row.log_end for row in connection.execute(ends)}
            for bucket, offset in offsets.items():
                if log_ends.get(bucket, 0) <= offset:  # most buckets of many partitions, most of the time
                    continue
                commit_us = connection.scalar(
                    sa.select(segments.c.commit_us)
                    .where(segments.c.starting_offset >= _segment_start(table_id, bucket, offset))
                    .where(_in_bucket(segments, table_id, bucket), segments.c.stopping_offset > offset)
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
            .where(segments.c.starting_offset >= _segment_start(table_id, bucket, starting_offset))
            .where(_in_bucket(segments, table_id, bucket), segments.c.starting_offset < stopping_offset)
            .where(segments.c.stopping_offset > starting_offset)
            .order_by(segments.c.starting_offset)
            .limit(limit)
        )
        with self._metadata.read() as connection:
            rows = connection.execute(query).all()
        return [
            Segment(row.path, row.starting_offset, row.stopping_offset, row.size_bytes, row.crc32, row.commit_us, row.columns)
            for row in rows
        ]


def _bounds(row: sa.Row[Any]) -> BucketOffsets:
    return BucketOffsets(row.log_start, row.log_end, row.size_bytes / max(1, row.log_end - row.log_start))


def _in_bucket(table: sa.Table, table_id: int, bucket: BucketKey) -> sa.ColumnElement[bool]:
    partition_id = NO_PARTITION if bucket.partition_id is None else bucket.partition_id
    return (table.c.table_id == table_id) & (table.c.partition_id == partition_id) & (table.c.bucket_id == bucket.bucket_id)


def _segment_start(table_id: int, bucket: BucketKey, offset: int) -> sa.ColumnElement[int]:
    """Where the segment that holds `offset` starts: found by the primary key, however long the log is."""
    in_bucket = _in_bucket(segments, table_id, bucket)
    newest = sa.select(sa.func.max(segments.c.starting_offset)).where(in_bucket, segments.c.starting_offset <= offset)
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
    return [AppendedRange(_bucket_key(next(iter(partition), None), bucket), start, stop) for bucket, start, stop, *partition in row.ranges]


def _publish(connection: sa.Connection, append: _Append, paths: Sequence[str], now_us: int) -> Sequence[AppendedRange]:
    table_id = append.table.table_id
    by_bucket: dict[tuple[int, int], list[tuple[EncodedSegment, str]]] = defaultdict(list)
    partition_ids = _partition_ids(connection, append)
    for piece, path in zip(append.pieces, paths, strict=True):
        by_bucket[partition_ids[piece.partition_name], piece.bucket_id].append((piece.segment, path))
    known = {
        (row.partition_id, row.bucket_id): row for row in connection.execute(sa.select(buckets).where(buckets.c.table_id == table_id)).all()
    }
    ranges, segment_rows, bucket_rows = [], [], []
    for key in sorted(by_bucket):
        added, changed = _bucket_rows(append, by_bucket[key], known[key], now_us)
        segment_rows += added
        bucket_rows.append(changed)
        ranges.append(AppendedRange(_bucket_key(*key), known[key].log_end, changed["log_end"]))
    connection.execute(sa.insert(segments), segment_rows)
    connection.execute(_UPDATE_BUCKET, bucket_rows)
    connection.execute(
        sa.insert(appends).values(
            table_id=table_id,
            writer_id=append.writer_id,
            sequence=append.sequence,
            fingerprint=append.fingerprint,
            ranges=[[r.bucket.bucket_id, r.starting_offset, r.stopping_offset, r.bucket.partition_id] for r in ranges],
        )
    )
    return ranges


def _partition_ids(connection: sa.Connection, append: _Append) -> Mapping[str | None, int]:
    names = {piece.partition_name for piece in append.pieces if piece.partition_name is not None}
    ids: dict[str | None, int] = {None: NO_PARTITION}
    if names:
        ids.update(ensure_partitions(connection, append.table, names))
    return ids


def _bucket_rows(
    append: _Append, pieces: Sequence[tuple[EncodedSegment, str]], bucket: sa.Row[Any], now_us: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What the pieces add to one bucket: rows of `segments`, and the parameters of `_UPDATE_BUCKET`."""
    commit_us = max(now_us, bucket.last_commit_us)  # a clock that was set back must not make later records older
    stops = list(itertools.accumulate((piece.records for piece, _ in pieces), initial=bucket.log_end))
    rows = [
        {
            "table_id": bucket.table_id,
            "partition_id": bucket.partition_id,
            "bucket_id": bucket.bucket_id,
            "starting_offset": start,
            "stopping_offset": stop,
            "path": path,
            "size_bytes": piece.content.size,
            "crc32": piece.crc32,
            "commit_us": commit_us,
            "columns": append.columns,
        }
        for (piece, path), start, stop in zip(pieces, stops, stops[1:], strict=False)
    ]
    changed = {
        "of_table": bucket.table_id,
        "of_partition": bucket.partition_id,
        "of_bucket": bucket.bucket_id,
        "log_end": stops[-1],
        "size_bytes": bucket.size_bytes + sum(piece.content.size for piece, _ in pieces),
        "last_commit_us": commit_us,
    }
    return rows, changed


_UPDATE_BUCKET = (
    sa.update(buckets)
    .where(buckets.c.table_id == sa.bindparam("of_table"))
    .where(buckets.c.partition_id == sa.bindparam("of_partition"), buckets.c.bucket_id == sa.bindparam("of_bucket"))
    .values({name: sa.bindparam(name) for name in ("log_end", "size_bytes", "last_commit_us")})
)


def _bucket_key(partition_id: int | None, bucket_id: int) -> BucketKey:
    return BucketKey(partition_id or None, bucket_id)
