"""The log: appends that are published all or none, offsets, and which files hold a range.

An append writes its files first and gets its offsets in the one transaction that publishes them; so writers wait
for each other for that transaction only, and a crash before it leaves files that nobody reads.
"""

from __future__ import annotations

import itertools
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa

from tiering.clock import Clock, Ids
from tiering.cluster.embedded.kv.refused_records import RefusedRecord
from tiering.cluster.embedded.log.appends import Append, WriteKey, earlier_ranges, encode, publish
from tiering.cluster.embedded.log.bucketing import Bucketing
from tiering.cluster.embedded.log.placing import place_rows
from tiering.cluster.embedded.log.segments import Segment, write_segments
from tiering.cluster.embedded.metadata.database import Metadata, among, bucket_key, buckets, in_bucket, segments, tables
from tiering.cluster.embedded.metadata.refused_record_rows import refused_of_table
from tiering.cluster.embedded.metadata.table_rows import StoredTable, table_exists
from tiering.cluster.embedded.stored_paths import stored_path
from tiering.cluster.embedded.writable import AppendedRange
from tiering.errors import BadRequest, ClusterUnavailable, UnknownTable
from tiering.instants import from_microseconds, to_microseconds
from tiering.model.tables import BucketKey, BucketOffsets, Offsets

NO_LIMIT = -1
"""As SQLite has it."""


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
        pieces = encode(place_rows(table.info, table.bucketing, batch, turn))
        crcs = b"".join(piece.segment.crc32.to_bytes(4, "big") for piece in pieces)
        key = WriteKey(table.info, writer_id, sequence, zlib.crc32(crcs))
        earlier = self.earlier(key)
        return self._write_and_publish(Append(key, pieces, batch.num_columns)) if earlier is None else earlier

    def append_changes(
        self, table: StoredTable, changes: pa.RecordBatch, key: WriteKey, together_with: Callable[[sa.Connection], None] | None = None
    ) -> Sequence[AppendedRange]:
        """Publishes rows of a primary-key table with their change types, those of a key next to each other; none: only `key`.

        `together_with` is done in the same transaction.
        """
        pieces = encode(place_rows(table.info, table.bucketing, changes, 0)) if changes.num_rows else []
        return self._write_and_publish(Append(key, pieces, changes.num_columns - 1), together_with)

    def earlier(self, key: WriteKey) -> Sequence[AppendedRange] | None:
        """What that write got when it came before; None = it did not. Raises InvalidArgument if it brought other rows then."""
        with self._metadata.read() as connection:
            return earlier_ranges(connection, key)

    def _write_and_publish(self, append: Append, together_with: Callable[[sa.Connection], None] | None = None) -> Sequence[AppendedRange]:
        named = [(self._ids.new_id(), piece.segment) for piece in append.pieces]
        try:
            paths = write_segments(self._root, append.table.table_id, named)
        except OSError as error:
            raise ClusterUnavailable(f"cannot write to the log of {append.table.path}: {error}", hint="Is the disk full?") from error
        with self._metadata.write() as connection:
            ranges = earlier_ranges(connection, append.key)
            if ranges is None and table_exists(connection, append.table.table_id):
                with self._removed_if_refused(paths):
                    if together_with is not None:
                        together_with(connection)
                    return publish(connection, append, paths, to_microseconds(self._clock.now()))
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
            stored_path(self._root, path).unlink(missing_ok=True)

    def offsets(self, table_id: int) -> dict[BucketKey, BucketOffsets]:
        """As `Cluster.offsets`."""
        query = sa.select(buckets).where(buckets.c.table_id == table_id).order_by(buckets.c.partition_id, buckets.c.bucket_id)
        with self._metadata.read() as connection:
            rows = connection.execute(query).all()
            if not rows and not table_exists(connection, table_id):
                raise UnknownTable(f"the table with id {table_id} is gone", table_id=table_id)
        return {bucket_key(row.partition_id, row.bucket_id): _bounds(row.log_start, row.log_end, row.size_bytes) for row in rows}

    def offsets_of(self, table_ids: Sequence[int]) -> dict[int, dict[BucketKey, BucketOffsets]]:
        """As `Cluster.offsets_of`: one moment of all."""
        wanted = among(table_ids)
        order = (buckets.c.table_id, buckets.c.partition_id, buckets.c.bucket_id)
        query = sa.select(*order, *_BOUNDS).where(buckets.c.table_id.in_(wanted)).order_by(*order)
        with self._metadata.read() as connection:
            living = connection.scalars(sa.select(tables.c.table_id).where(tables.c.table_id.in_(wanted)))
            found: dict[int, dict[BucketKey, BucketOffsets]] = {table_id: {} for table_id in living}
            for table_id, partition_id, bucket_id, *bounds in connection.execute(query):
                found[table_id][bucket_key(partition_id, bucket_id)] = _bounds(*bounds)
        return found

    def bounds(self, table_id: int, bucket: BucketKey) -> BucketOffsets | None:
        """Start and end of one bucket's log; None = no such bucket. Raises UnknownTable."""
        with self._metadata.read() as connection:
            row = connection.execute(sa.select(buckets).where(in_bucket(buckets, table_id, bucket))).first()
            if row is None and not table_exists(connection, table_id):
                raise UnknownTable(f"the table with id {table_id} is gone", table_id=table_id)
        return None if row is None else _bounds(row.log_start, row.log_end, row.size_bytes)

    def oldest_timestamps(self, table_id: int, offsets: Offsets) -> dict[BucketKey, datetime]:
        """As `Cluster.oldest_timestamps`: the commit times of the segments that hold the offsets."""
        found = {}
        ends = sa.select(buckets.c.partition_id, buckets.c.bucket_id, buckets.c.log_end).where(buckets.c.table_id == table_id)
        with self._metadata.read() as connection:
            log_ends = {bucket_key(row.partition_id, row.bucket_id): row.log_end for row in connection.execute(ends)}
            for bucket, offset in offsets.items():
                if log_ends.get(bucket, 0) <= offset:  # most buckets of many partitions, most of the time
                    continue
                commit_us = connection.scalar(
                    sa.select(segments.c.commit_us)
                    .where(segments.c.starting_offset >= _segment_start(table_id, bucket, offset))
                    .where(in_bucket(segments, table_id, bucket), segments.c.stopping_offset > offset)
                    .order_by(segments.c.starting_offset)
                    .limit(1)
                )
                if commit_us is not None:
                    found[bucket] = from_microseconds(commit_us)
        return found

    def segments(
        self, table_id: int, bucket: BucketKey, starting_offset: int, stopping_offset: int, limit: int = NO_LIMIT
    ) -> list[Segment]:
        """The first `limit` segments that hold records of the range, in order; all of them without a limit."""
        query = (
            sa.select(segments)
            .where(segments.c.starting_offset >= _segment_start(table_id, bucket, starting_offset))
            .where(in_bucket(segments, table_id, bucket), segments.c.starting_offset < stopping_offset)
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

    def refused(self, table_id: int, bucket: BucketKey) -> Sequence[RefusedRecord]:
        """Records of the bucket that its KV state refused, in order; few, and mostly none."""
        with self._metadata.read() as connection:
            return refused_of_table(connection, table_id, bucket).get(bucket, ())


_BOUNDS = (buckets.c.log_start, buckets.c.log_end, buckets.c.size_bytes)


def _bounds(log_start: int, log_end: int, size_bytes: int) -> BucketOffsets:
    return BucketOffsets(log_start, log_end, size_bytes / max(1, log_end - log_start))


def _segment_start(table_id: int, bucket: BucketKey, offset: int) -> sa.ColumnElement[int]:
    """Where the segment that holds `offset` starts: found by the primary key, however long the log is."""
    mine = in_bucket(segments, table_id, bucket)
    newest = sa.select(sa.func.max(segments.c.starting_offset)).where(mine, segments.c.starting_offset <= offset)
    return sa.func.coalesce(newest.scalar_subquery(), 0)
