"""One write to a log: encodes its rows, and records in the metadata the write and its offset ranges.

A repeated write is recognized by the writing principal, the writer id and the sequence, and must have the same bytes. It is recognized as
long as the table and the partitions of the first write exist; rows of a partition that was dropped since are written again. The functions
use one connection, and the caller controls the transaction.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from tiering.access.acting_for import kept_name
from tiering.cluster.embedded.log.segments import EncodedSegment, encode_segments
from tiering.cluster.embedded.metadata.database import NO_PARTITION, appends, bucket_key, buckets, segments, stored_partition
from tiering.cluster.embedded.metadata.partitions import ensure_partitions, list_partitions
from tiering.cluster.partition_names import BucketRows
from tiering.cluster.writable import AppendedRange
from tiering.errors import InvalidArgument
from tiering.model.tables import TableInfo

MAX_WRITER_ID_LENGTH = 200


@dataclass(frozen=True)
class WriteKey:
    """One numbered write of one writer. A repeated write has the same `sha256`; older versions compared only `crc32`.

    `table` has the columns to which the rows were fitted: those of the first attempt (`columns_of_write`). `kept_id`: the stored form of
    the writer's id, which differs between principals.
    """

    table: TableInfo
    writer_id: str
    kept_id: str
    sequence: int
    sha256: str
    crc32: int


def write_key(table: TableInfo, writer_id: str, sequence: int, content: Iterable[bytes | pa.Buffer], crc32: int) -> WriteKey:
    """Returns the key of a write of the principal for whom this thread works. `content`: all bytes of the write, in pieces."""
    digest = sha256()
    for piece in content:
        size = len(piece) if isinstance(piece, bytes) else piece.size
        digest.update(size.to_bytes(8, "big"))
        digest.update(piece)
    return WriteKey(table, writer_id, kept_name(writer_id), sequence, digest.hexdigest(), crc32)


@dataclass(frozen=True)
class WrittenColumns:
    """The columns of written files (a `StoredFile`): the first `columns` ones of a schema id."""

    schema_id: int
    columns: int


class WrittenWithOtherColumns(Exception):
    """A concurrent attempt of the same write was fitted to other columns and published first: fit the rows again."""


@dataclass(frozen=True)
class FileChunk:
    """Rows of one bucket, for one file. The partition is given by name only, because it may not exist yet."""

    partition_name: str | None
    bucket_id: int
    segment: EncodedSegment


def check_writer(writer_id: str, sequence: int) -> None:
    """Raises InvalidArgument for a writer id that is empty or too long, and for a negative sequence."""
    if not 0 < len(writer_id) <= MAX_WRITER_ID_LENGTH or sequence < 0:
        raise InvalidArgument(f"a write needs a writer id of 1 to {MAX_WRITER_ID_LENGTH} characters and a sequence from 0")


@dataclass(frozen=True)
class EarlierWrite:
    """The remaining result of an earlier attempt of a write: `ranges` in living partitions.

    `dropped`: names of its partitions that were dropped since. `is_unnamed` is set for a version that stored no names; then every partition
    that is not in `kept` counts as dropped.
    """

    ranges: Sequence[AppendedRange]
    kept: Collection[str | None] = ()
    dropped: Collection[str | None] = ()
    is_unnamed: bool = False

    @property
    def is_whole(self) -> bool:
        """Returns whether all of its partitions exist."""
        return not self.dropped and not self.is_unnamed

    def is_missing(self, partition_name: str | None) -> bool:
        """Returns whether rows of that partition have to be written again."""
        return partition_name in self.dropped or (self.is_unnamed and partition_name not in self.kept)


def earlier_write(connection: sa.Connection, key: WriteKey) -> EarlierWrite | None:
    """Returns the earlier result of this (writer_id, sequence) of the principal; None without one. Raises InvalidArgument if that write had
    other rows.
    """
    row = _earlier_row(connection, key)
    if row is None:
        return None
    if not _has_same_rows(row, key):
        if row.schema_id != key.table.schema_id:
            raise WrittenWithOtherColumns
        raise other_rows(key.table, key.writer_id, key.sequence)
    living: dict[int, str | None] = {NO_PARTITION: None}
    if key.table.partition_keys:
        living = {partition.partition_id: partition.partition_name for partition in list_partitions(connection, key.table.table_id)}
    ranges, kept, dropped, is_unnamed = [], set[str | None](), set[str | None](), False
    for bucket_id, start, stop, *partition in row.ranges:
        bucket = bucket_key(next(iter(partition), None), bucket_id)
        if (partition_id := stored_partition(bucket)) in living:
            ranges.append(AppendedRange(bucket, start, stop))
            kept.add(living[partition_id])
        elif len(partition) > 1:
            dropped.add(partition[1])
        else:
            is_unnamed = True
    return EarlierWrite(ranges, kept, dropped, is_unnamed)


def columns_of_write(connection: sa.Connection, table: TableInfo, writer_id: str, sequence: int) -> Sequence[int]:
    """Returns the schema ids to whose columns the rows of a write may be fitted; the first one at which there was the same write counts."""
    own, former = _rows_of_write(connection, table.table_id, writer_id, sequence)
    if own is not None:
        return [own.schema_id]
    return [table.schema_id] if former is None or former.schema_id == table.schema_id else [former.schema_id, table.schema_id]


def other_rows(table: TableInfo, writer_id: str, sequence: int) -> InvalidArgument:
    """Returns the error for a repeated write with other rows."""
    return InvalidArgument(
        f"writer {writer_id!r} wrote other rows to {table.path} with the sequence {sequence} before",
        hint="A writer id belongs to one source of rows; use a new one.",
        repeated_sequence=sequence,
    )


def _earlier_row(connection: sa.Connection, key: WriteKey) -> sa.Row[Any, Any, Any, Any] | None:
    """Returns the row of the principal's own write, or else a row stored under the original writer id, if that write had the same rows."""
    own, former = _rows_of_write(connection, key.table.table_id, key.writer_id, key.sequence)
    return own or (former if former is not None and _has_same_rows(former, key) else None)


def _rows_of_write(
    connection: sa.Connection, table_id: int, writer_id: str, sequence: int
) -> tuple[sa.Row[Any, Any, Any, Any] | None, sa.Row[Any, Any, Any, Any] | None]:
    """Returns the row of the principal's own write, and without one the row that is stored under the original writer id.

    The latter is from an older version, or from a service without authentication.
    """
    query = sa.select(appends.c.sha256, appends.c.fingerprint, appends.c.ranges, appends.c.schema_id)
    kept_id = kept_name(writer_id)
    own = connection.execute(query.where(_same_write(table_id, kept_id, sequence))).first()
    if own is not None or kept_id == writer_id:
        return own, None
    return None, connection.execute(query.where(_same_write(table_id, writer_id, sequence))).first()


def _has_same_rows(row: sa.Row[Any, Any, Any, Any], key: WriteKey) -> bool:
    return bool(row.fingerprint == key.crc32 if row.sha256 is None else row.sha256 == key.sha256)


def _same_write(table_id: int, kept_id: str, sequence: int) -> sa.ColumnElement[bool]:
    return sa.and_(appends.c.table_id == table_id, appends.c.writer_id == kept_id, appends.c.sequence == sequence)


def written_records(connection: sa.Connection, table_id: int, writer_ids: str) -> int:
    """Returns the number of records of all writers whose id begins with `writer_ids`. Implements `WriterHistory.written_records`."""
    after_last = writer_ids[:-1] + chr(ord(writer_ids[-1]) + 1)
    query = sa.select(appends.c.ranges).where(
        appends.c.table_id == table_id, appends.c.writer_id >= writer_ids, appends.c.writer_id < after_last
    )
    return sum(stop - start for ranges in connection.scalars(query) for _, start, stop, *_ in ranges)


def publish(
    connection: sa.Connection,
    key: WriteKey,
    files: Sequence[tuple[FileChunk, str]],
    columns: WrittenColumns,
    now_us: int,
    earlier: EarlierWrite | None,
) -> Sequence[AppendedRange]:
    """Adds the written `files`, pieces with their paths, to the log, and returns their ranges by bucket. Without files only the write is
    recorded. Raises InvalidArgument (too many partitions).

    `columns`: the columns of the files. `earlier`: the remaining result of an earlier attempt, whose ranges come first;
    `files` are then only the missing ones.
    """
    table_id = key.table.table_id
    by_bucket: dict[tuple[int, int], list[tuple[EncodedSegment, str]]] = defaultdict(list)
    partition_ids = _partition_ids(connection, key.table, [piece for piece, _ in files])
    for piece, path in files:
        by_bucket[partition_ids[piece.partition_name], piece.bucket_id].append((piece.segment, path))
    bucket_rows_before = {
        (row.partition_id, row.bucket_id): row for row in connection.execute(sa.select(buckets).where(buckets.c.table_id == table_id)).all()
    }
    ranges, segment_rows, bucket_rows = [] if earlier is None else list(earlier.ranges), [], []
    for place in sorted(by_bucket):
        added, changed = _bucket_rows(columns, by_bucket[place], bucket_rows_before[place], now_us)
        segment_rows += added
        bucket_rows.append(changed)
        ranges.append(AppendedRange(bucket_key(*place), bucket_rows_before[place].log_end, changed["log_end"]))
    if segment_rows:
        connection.execute(sa.insert(segments), segment_rows)
        connection.execute(_UPDATE_BUCKET, bucket_rows)
    _record(connection, key, ranges)
    return ranges


def _record(connection: sa.Connection, key: WriteKey, ranges: Sequence[AppendedRange]) -> None:
    """Records the write, and replaces an earlier record of it."""
    partitions = list_partitions(connection, key.table.table_id) if key.table.partition_keys else []
    names = {partition.partition_id: partition.partition_name for partition in partitions}
    rows: list[list[int | str | None]] = []
    for range_ in ranges:
        partition_id = range_.bucket.partition_id
        row: list[int | str | None] = [range_.bucket.bucket_id, range_.starting_offset, range_.stopping_offset, partition_id]
        rows.append(row if partition_id is None else [*row, names[partition_id]])
    connection.execute(sa.delete(appends).where(_same_write(key.table.table_id, key.kept_id, key.sequence)))
    connection.execute(
        sa.insert(appends).values(
            table_id=key.table.table_id,
            writer_id=key.kept_id,
            sequence=key.sequence,
            fingerprint=key.crc32,
            sha256=key.sha256,
            schema_id=key.table.schema_id,
            ranges=rows,
        )
    )


def encode(placed: Sequence[BucketRows]) -> list[FileChunk]:
    """Returns the rows of buckets as segments of bounded size, in order."""
    return [FileChunk(part.partition_name, part.bucket_id, segment) for part in placed for segment in encode_segments(part.rows)]


def _partition_ids(connection: sa.Connection, table: TableInfo, pieces: Sequence[FileChunk]) -> Mapping[str | None, int]:
    names = {piece.partition_name for piece in pieces if piece.partition_name is not None}
    ids: dict[str | None, int] = {None: NO_PARTITION}
    if names:
        ids.update(ensure_partitions(connection, table, names))
    return ids


def _bucket_rows(
    columns: WrittenColumns, pieces: Sequence[tuple[EncodedSegment, str]], bucket: sa.Row[Any], now_us: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Returns what the pieces add to one bucket: rows of `segments`, and the parameters of `_UPDATE_BUCKET`."""
    commit_us = max(now_us, bucket.last_commit_us)  # if the clock was set back, later records must not become older
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
            "columns": columns.columns,
            "schema_id": columns.schema_id,
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
