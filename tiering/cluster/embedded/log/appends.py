"""One write to a log: encodes its rows, and records in the metadata the ranges it got and that it happened.

A repeat is recognized by writer id and sequence, for as long as the table lives. Functions over one connection; the caller holds the
transaction.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tiering.cluster.embedded.log.placing import Placed
from tiering.cluster.embedded.log.segments import EncodedSegment, encode_segments
from tiering.cluster.embedded.metadata.database import NO_PARTITION, appends, bucket_key, buckets, segments
from tiering.cluster.embedded.metadata.partitions import ensure_partitions
from tiering.cluster.writable import AppendedRange
from tiering.errors import InvalidArgument
from tiering.model.tables import TableInfo

MAX_WRITER_ID_LENGTH = 200


@dataclass(frozen=True)
class WriteKey:
    """One numbered write of one writer. `fingerprint` tells whether a repeat brings the same rows."""

    table: TableInfo
    writer_id: str
    sequence: int
    fingerprint: int


@dataclass(frozen=True)
class Piece:
    """Rows of one bucket, as a file will hold them. The partition has a name only, since it may not exist yet."""

    partition_name: str | None
    bucket_id: int
    segment: EncodedSegment


@dataclass(frozen=True)
class Append:
    """One encoded write that has no offsets yet. Without pieces, only that it happened is recorded."""

    key: WriteKey
    pieces: Sequence[Piece]
    columns: int

    @property
    def table(self) -> TableInfo:
        return self.key.table


def check_writer(writer_id: str, sequence: int) -> None:
    """Raises InvalidArgument for a writer id that is empty or too long, and for a negative sequence."""
    if not 0 < len(writer_id) <= MAX_WRITER_ID_LENGTH or sequence < 0:
        raise InvalidArgument(f"a write needs a writer id of 1 to {MAX_WRITER_ID_LENGTH} characters and a sequence from 0")


def earlier_ranges(connection: sa.Connection, key: WriteKey) -> Sequence[AppendedRange] | None:
    """Returns the ranges that this (writer_id, sequence) got before. Raises InvalidArgument if it had other rows then."""
    row = connection.execute(
        sa.select(appends.c.fingerprint, appends.c.ranges).where(
            appends.c.table_id == key.table.table_id,
            appends.c.writer_id == key.writer_id,
            appends.c.sequence == key.sequence,
        )
    ).first()
    if row is None:
        return None
    if row.fingerprint != key.fingerprint:
        raise InvalidArgument(
            f"writer {key.writer_id!r} brought other rows to {key.table.path} as number {key.sequence} before",
            hint="A writer id belongs to one source of rows; take a new one.",
        )
    return [AppendedRange(bucket_key(next(iter(partition), None), bucket), start, stop) for bucket, start, stop, *partition in row.ranges]


def publish(connection: sa.Connection, append: Append, paths: Sequence[str], now_us: int) -> Sequence[AppendedRange]:
    """Makes the written files part of the log, and returns the ranges they got, by bucket. Raises InvalidArgument (too many partitions)."""
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
        ranges.append(AppendedRange(bucket_key(*key), known[key].log_end, changed["log_end"]))
    if segment_rows:
        connection.execute(sa.insert(segments), segment_rows)
        connection.execute(_UPDATE_BUCKET, bucket_rows)
    connection.execute(
        sa.insert(appends).values(
            table_id=table_id,
            writer_id=append.key.writer_id,
            sequence=append.key.sequence,
            fingerprint=append.key.fingerprint,
            ranges=[[r.bucket.bucket_id, r.starting_offset, r.stopping_offset, r.bucket.partition_id] for r in ranges],
        )
    )
    return ranges


def encode(placed: Sequence[Placed]) -> list[Piece]:
    """Returns rows of buckets as segments of bounded size, in order."""
    return [Piece(part.partition_name, part.bucket_id, segment) for part in placed for segment in encode_segments(part.rows)]


def _partition_ids(connection: sa.Connection, append: Append) -> Mapping[str | None, int]:
    names = {piece.partition_name for piece in append.pieces if piece.partition_name is not None}
    ids: dict[str | None, int] = {None: NO_PARTITION}
    if names:
        ids.update(ensure_partitions(connection, append.table, names))
    return ids


def _bucket_rows(
    append: Append, pieces: Sequence[tuple[EncodedSegment, str]], bucket: sa.Row[Any], now_us: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Returns what the pieces add to one bucket: rows of `segments`, and the parameters of `_UPDATE_BUCKET`."""
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
