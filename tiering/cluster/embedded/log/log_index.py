"""Looks up logs in the metadata: offsets, commit times, and the files of a range. For the cluster's owner and for other readers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from tiering.cluster.embedded.kv.refused_records import RefusedRecord, refused_of_table
from tiering.cluster.embedded.log.segments import Segment
from tiering.cluster.embedded.metadata.database import NO_PARTITION, Metadata, among, bucket_key, buckets, in_bucket, segments, tables
from tiering.cluster.embedded.metadata.table_rows import columns_at, table_exists
from tiering.errors import UnknownTable
from tiering.instants import from_microseconds
from tiering.model.tables import BucketKey, BucketOffsets, Offsets

NO_LIMIT = -1
"""SQLite's value for a query without a limit."""

_TRACE_BYTES = 8
"""Size of a trace's hash, kept small because a marker has a trace of each bucket."""


class LogIndex:
    """Looks up the logs of all tables."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    def offsets(self, table_id: int) -> dict[BucketKey, BucketOffsets]:
        """Returns the offsets of all buckets of a table. Implements `LogOffsets.offsets`."""
        query = sa.select(buckets).where(buckets.c.table_id == table_id).order_by(buckets.c.partition_id, buckets.c.bucket_id)
        with self._metadata.read() as connection:
            rows = connection.execute(query).all()
            if not rows and not table_exists(connection, table_id):
                raise UnknownTable(f"the table with id {table_id} does not exist", table_id=table_id)
        return {bucket_key(row.partition_id, row.bucket_id): _bounds(row.log_start, row.log_end, row.size_bytes) for row in rows}

    def offsets_of(self, table_ids: Sequence[int]) -> dict[int, dict[BucketKey, BucketOffsets]]:
        """Returns the offsets of several tables at one moment. Implements `LogOffsets.offsets_of`."""
        ids = among(table_ids)
        order = (buckets.c.table_id, buckets.c.partition_id, buckets.c.bucket_id)
        query = sa.select(*order, *_BOUNDS).where(buckets.c.table_id.in_(ids)).order_by(*order)
        with self._metadata.read() as connection:
            living = connection.scalars(sa.select(tables.c.table_id).where(tables.c.table_id.in_(ids)))
            offsets: dict[int, dict[BucketKey, BucketOffsets]] = {table_id: {} for table_id in living}
            for table_id, partition_id, bucket_id, *bounds in connection.execute(query):
                offsets[table_id][bucket_key(partition_id, bucket_id)] = _bounds(*bounds)
        return offsets

    def bounds(self, table_id: int, bucket: BucketKey) -> BucketOffsets | None:
        """Returns start and end of one bucket's log; None if the bucket does not exist. Raises UnknownTable."""
        with self._metadata.read() as connection:
            row = connection.execute(sa.select(buckets).where(in_bucket(buckets, table_id, bucket))).first()
            if row is None and not table_exists(connection, table_id):
                raise UnknownTable(f"the table with id {table_id} does not exist", table_id=table_id)
        return None if row is None else _bounds(row.log_start, row.log_end, row.size_bytes)

    def oldest_timestamps(self, table_id: int, offsets: Offsets) -> dict[BucketKey, datetime]:
        """Returns the commit times of the segments that have the offsets, or of the first later segment. Implements
        `LogOffsets.oldest_timestamps`.
        """
        query = sa.select(buckets).where(buckets.c.table_id == table_id)
        with self._metadata.read() as connection:
            rows = {bucket_key(row.partition_id, row.bucket_id): row for row in connection.execute(query)}
            present = {bucket: offset for bucket, offset in offsets.items() if bucket in rows and offset < rows[bucket].log_end}
            behind = {bucket: max(offset, rows[bucket].log_start) + 1 for bucket, offset in present.items()}
            commits_us = {bucket: row.commit_us for bucket, row in _segments_below(connection, table_id, behind)}
        for bucket in present.keys() - commits_us.keys():  # no segment has the offset: the list of segments is damaged
            for segment in self.segments(table_id, bucket, present[bucket], rows[bucket].log_end, limit=1):
                commits_us[bucket] = segment.commit_us
        return {bucket: from_microseconds(commit_us) for bucket, commit_us in commits_us.items()}

    def record_traces(self, table_id: int, offsets: Offsets) -> Mapping[BucketKey, str]:
        """Returns for each record a hash of the metadata of its segment; reads no file. Implements `RewritableLogs.record_traces`."""
        with self._metadata.read() as connection:
            return {bucket: _trace(row) for bucket, row in _segments_below(connection, table_id, offsets)}

    def segments(
        self, table_id: int, bucket: BucketKey, starting_offset: int, stopping_offset: int, limit: int = NO_LIMIT
    ) -> list[Segment]:
        """Returns the first `limit` segments that have records of the range, in order; all of them without a limit."""
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
        return [Segment(*(getattr(row, name) for name in _SEGMENT_FIELDS)) for row in rows]

    def columns_at(self, table_id: int, schema_id: int) -> pa.Schema:
        """Returns the columns that a table had with this schema id. Raises UnknownTable."""
        with self._metadata.read() as connection:
            return columns_at(connection, table_id, schema_id)

    def refused(self, table_id: int, bucket: BucketKey) -> Sequence[RefusedRecord]:
        """Returns the records of the bucket that its KV state refused, in order: usually none."""
        with self._metadata.read() as connection:
            return refused_of_table(connection, table_id, bucket).get(bucket, ())


_SEGMENT_FIELDS = tuple(field.name for field in fields(Segment))
"""The fields of a segment, which are columns of `segments` with the same names."""
_BOUNDS = (buckets.c.log_start, buckets.c.log_end, buckets.c.size_bytes)


SEGMENTS_BELOW = sa.text(
    """
    WITH place AS (
        SELECT json_extract(value, '$[0]') AS partition_id, json_extract(value, '$[1]') AS bucket_id, json_extract(value, '$[2]') AS offset
        FROM json_each(:places)
    )
    SELECT segments.* FROM place
    CROSS JOIN segments ON segments.table_id = :table
        AND segments.partition_id = place.partition_id AND segments.bucket_id = place.bucket_id AND segments.starting_offset = (
            SELECT max(below.starting_offset) FROM segments AS below
            WHERE below.table_id = :table AND below.partition_id = place.partition_id AND below.bucket_id = place.bucket_id
                AND below.starting_offset < place.offset
        )
    WHERE segments.stopping_offset >= place.offset
    """
)
"""Query for the segments that have the last record below an offset, for many buckets at once.

CROSS JOIN keeps this order in SQLite: a look-up by primary key for each place. Otherwise it would read all segments of the table.
"""


def _segments_below(connection: sa.Connection, table_id: int, offsets: Offsets) -> list[tuple[BucketKey, sa.Row[Any]]]:
    """Returns the segments that have the last record below each offset."""
    places = json.dumps([(bucket.partition_id or NO_PARTITION, bucket.bucket_id, offset) for bucket, offset in offsets.items()])
    rows = connection.execute(SEGMENTS_BELOW, {"table": table_id, "places": places}) if offsets else ()
    return [(bucket_key(row.partition_id, row.bucket_id), row) for row in rows]


def _trace(segment: sa.Row[Any]) -> str:
    """Returns the trace of a segment. Its file name is random and never reused."""
    name = segment.path.rpartition("/")[2]
    text = f"{name} {segment.starting_offset} {segment.stopping_offset} {segment.crc32} {segment.commit_us}"
    return blake2b(text.encode(), digest_size=_TRACE_BYTES).hexdigest()


def _bounds(log_start: int, log_end: int, size_bytes: int) -> BucketOffsets:
    return BucketOffsets(log_start, log_end, size_bytes / (log_end - log_start) if log_end > log_start else None)


def _segment_start(table_id: int, bucket: BucketKey, offset: int) -> sa.ColumnElement[int]:
    """Returns the start of the segment that has `offset`. It is found by primary key, which is fast for a log of any length."""
    in_the_bucket = in_bucket(segments, table_id, bucket)
    newest = sa.select(sa.func.max(segments.c.starting_offset)).where(in_the_bucket, segments.c.starting_offset <= offset)
    return sa.func.coalesce(newest.scalar_subquery(), 0)
