"""The executor side of a log split: reads it from immutable files, without a call to the cluster. `snapshot_files` reads snapshot splits.

Every file is read once, into memory, and verified before a row of it is used. Small segments are joined into larger batches; large ones are
passed on without a copy. Offsets and commit time come from the metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tiering.cluster.capabilities import uncounted
from tiering.cluster.embedded.kv.refused_records import RefusedRecord, changes_of_nothing, stopped
from tiering.cluster.embedded.log.segments import GAP_HINT, Segment, read_segment
from tiering.cluster.embedded.stored_columns import ColumnsAt, Versions, as_present, check_columns, columns_in, versions_of
from tiering.errors import DataCorrupt, InvalidArgument, LogTruncated, SourceChanged
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import (
    BUCKET_COLUMN,
    CHANGE_TYPE_FIELD,
    OFFSET_COLUMN,
    SYSTEM_COLUMN_FIELDS,
    BucketKey,
    BucketOffsets,
    TableInfo,
    TableType,
)

TARGET_BATCH_ROWS = 65_536
"""Rows of a joined batch: enough that the cost per batch does not matter; smaller than a row group."""
TARGET_BATCH_BYTES = 16 * 1024 * 1024
"""Maximum size of a joined batch, for wide rows."""
_BUCKET_TYPE, _OFFSET_TYPE, _TIMESTAMP_TYPE = (field.type for field in SYSTEM_COLUMN_FIELDS)


@dataclass(frozen=True)
class ListedRange:
    """The segments that have the records of a range."""

    root: str
    segments: Sequence[Segment]
    """The segments of the range, in order."""
    refused: Sequence[RefusedRecord] = ()
    """All records of the bucket that its KV state refused, also outside of the range."""


ListSegments = Callable[[BucketKey, int, int], ListedRange]
"""Returns the segments of a range, from (bucket, start, stop)."""


@dataclass(frozen=True)
class EmbeddedSplitReader:
    """Implements `SplitReader`, `CountingReader` and `ProjectingReader`. It can be pickled: it has the list of files, and no connection."""

    root: str
    schema: pa.Schema
    split: TieringLogSplit
    segments: tuple[Segment, ...]
    versions: Versions
    """The columns to which the segments refer."""
    changes: bool = False
    """Whether the segments have change types."""
    skipped: tuple[int, ...] = ()
    """Offsets of skipped records, which are read as empty changes (`refused_records.py`)."""

    def read(self) -> Iterator[pa.RecordBatch]:
        return self.read_counted(uncounted)

    def read_counted(self, count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        """Yields the records, and passes the size of each read segment to `count`. A segment is read as a whole, even if the split has only
        a part of it.
        """
        return self._joined(self.read_schema.names, count)

    def read_columns(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._joined(columns, uncounted)

    @property
    def read_schema(self) -> pa.Schema:
        """Returns the schema of the rows, which equals `TableInfo.read_schema`."""
        return pa.schema([*self.schema, *SYSTEM_COLUMN_FIELDS, *([CHANGE_TYPE_FIELD] if self.changes else [])])

    def _joined(self, columns: Sequence[str], count: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        pending: list[_Piece] = []
        rows = size_bytes = 0
        for segment in self.segments:
            piece = self._cut(segment, columns)
            count(segment.size_bytes)
            pending.append(piece)
            rows += piece.rows.num_rows
            size_bytes += piece.rows.nbytes
            # A single segment of at least half the size is passed on as it is, because joining would copy it.
            enough_rows = TARGET_BATCH_ROWS // 2 if len(pending) == 1 else TARGET_BATCH_ROWS
            if rows >= enough_rows or size_bytes >= TARGET_BATCH_BYTES:
                yield self._join(pending, columns)
                pending, rows, size_bytes = [], 0, 0
        if pending:
            yield self._join(pending, columns)

    def _cut(self, segment: Segment, columns: Sequence[str]) -> _Piece:
        """Returns the part of a segment that is in the split, with `columns` except for those that `_system_column` makes."""
        stored = columns_in(segment, self.versions)
        batch = read_segment(Path(self.root), segment, stored, self.split.bucket, changes=self.changes)
        batch = as_present(batch, stored, self.schema, columns)
        start = max(segment.starting_offset, self.split.starting_offset)
        stop = min(segment.stopping_offset, self.split.stopping_offset)
        batch = changes_of_nothing(batch, [offset - segment.starting_offset for offset in self.skipped])
        return _Piece(batch.slice(start - segment.starting_offset, stop - start), start, segment.commit_us)

    def _join(self, pieces: Sequence[_Piece], columns: Sequence[str]) -> pa.RecordBatch:
        rows = pieces[0].rows if len(pieces) == 1 else pa.concat_batches([piece.rows for piece in pieces])  # type: ignore[attr-defined]  # missing in the stubs
        schema = self.read_schema
        arrays = [rows.column(name) if name in rows.schema.names else self._system_column(name, pieces) for name in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([schema.field(name) for name in columns]))

    def _system_column(self, name: str, pieces: Sequence[_Piece]) -> pa.Array[Any]:
        counts = [piece.rows.num_rows for piece in pieces]
        count, start = sum(counts), pieces[0].starting_offset
        if name == BUCKET_COLUMN:
            return pa.array(np.full(count, self.split.bucket.bucket_id, dtype=np.int32), _BUCKET_TYPE)
        if name == OFFSET_COLUMN:
            return pa.array(np.arange(start, start + count, dtype=np.int64), _OFFSET_TYPE)
        return pa.array(np.repeat(np.array([piece.commit_us for piece in pieces], dtype=np.int64), counts)).view(_TIMESTAMP_TYPE)


@dataclass(frozen=True)
class _Piece:
    rows: pa.RecordBatch
    starting_offset: int
    commit_us: int


def open_reader(
    table: TableInfo,
    split: TieringLogSplit,
    bounds: BucketOffsets | None,
    list_segments: ListSegments,
    columns_at: ColumnsAt,
) -> EmbeddedSplitReader:
    """Returns the reader of `split`, after a check that segments cover its whole range. `columns_at` returns the columns of a schema id.

    Raises LogTruncated, InvalidArgument (a range beyond the log or the table's buckets), DataCorrupt (a hole in the metadata),
    BucketStopped, SourceChanged (the partition was dropped, or records have later columns than `table`).
    """
    start, stop = split.starting_offset, split.stopping_offset
    if bounds is None and split.bucket.partition_id is not None:
        name = split.partition_name or split.bucket.partition_id
        raise SourceChanged(f"the partition {name} of {table.path} was dropped", table_id=table.table_id, bucket=split.bucket)
    if bounds is None or not 0 <= start <= stop <= bounds.log_end:
        end = "which does not exist" if bounds is None else f"whose log ends at {bounds.log_end}"
        raise InvalidArgument(f"cannot read [{start}, {stop}) of {table.path} bucket {split.bucket}, {end}", table_id=table.table_id)
    if start < bounds.log_start:
        raise LogTruncated(
            f"the log of {table.path} bucket {split.bucket} starts at offset {bounds.log_start}, after {start}",
            table_id=table.table_id,
            table_path=table.path,
            bucket=split.bucket,
        )
    listed = list_segments(split.bucket, start, stop)
    root, segments = listed.root, listed.segments
    for record in listed.refused:
        if start <= record.offset < stop and not record.is_skipped:
            raise stopped(table, split.bucket, split.partition_name, record)
    _check_covered(table, split, segments)
    check_columns(table, segments)
    skipped = tuple(record.offset for record in listed.refused if record.is_skipped and start <= record.offset < stop)
    versions = versions_of(table, segments, columns_at)
    is_keyed = table.table_type is TableType.PRIMARY_KEY
    return EmbeddedSplitReader(root, table.schema, split, tuple(segments), versions, is_keyed, skipped)


def _check_covered(table: TableInfo, split: TieringLogSplit, segments: Sequence[Segment]) -> None:
    reached = split.starting_offset
    for segment in segments:
        if segment.starting_offset > reached:
            break
        reached = segment.stopping_offset
    if reached < split.stopping_offset:
        raise DataCorrupt(
            f"the log of {table.path} bucket {split.bucket} has no segment for offsets [{reached}, {split.stopping_offset})",
            hint=GAP_HINT,
            bucket=split.bucket,
            starting_offset=reached,
            stopping_offset=split.stopping_offset,
        )
