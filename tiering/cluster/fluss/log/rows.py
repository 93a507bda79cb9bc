"""Joins verified record batches of a range of offsets to larger batches of rows: the pure half of reading a split.

Small record batches are joined, large ones are passed on as they are decoded. Offsets without records are left out: Fluss writes record
batches without records, which use offsets nevertheless.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.cluster.fluss.log.batches import MAX_DECOMPRESSED_BYTES, BatchHeader, DecodedBatch, LogPlace, damaged, decode_batch
from tiering.cluster.fluss.log.packed_rows import PADDING, PackedBytes, Positions, RowEncoding, log_encoding, rows_within_range
from tiering.cluster.fluss.log.schemas import LogLayout, log_layout, parse_schema_json
from tiering.errors import BucketStopped, SourceChanged
from tiering.library_guards.arrow_ipc import BodyReader
from tiering.model.refused_records import UnwritableRow, bucket_stopped, described, text_of
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import (
    BUCKET_COLUMN,
    CHANGE_TYPE_FIELD,
    OFFSET_COLUMN,
    SYSTEM_COLUMN_FIELDS,
    TIMESTAMP_COLUMN,
    ChangeType,
    TableInfo,
    TableType,
)

TARGET_BATCH_ROWS = 65_536
"""Rows of a joined batch: enough that the cost per batch does not matter; smaller than a row group."""
TARGET_BATCH_BYTES = 16 * 1024 * 1024
"""Maximum size of a joined batch, for wide rows."""
_BUCKET_TYPE, _OFFSET_TYPE, _TIMESTAMP_TYPE = (field.type for field in SYSTEM_COLUMN_FIELDS)


@dataclass(frozen=True)
class LogChunk:
    """Consecutive record batches that arrived together, verified."""

    data: pa.Buffer
    headers: Sequence[BatchHeader]
    place: LogPlace


@dataclass(frozen=True)
class RowFormat:
    """The form in which rows of a table's log are returned. It can be pickled."""

    schema: pa.Schema
    """The table's own columns."""
    has_changes: bool
    """Whether the change type follows the system columns."""
    schemas: Mapping[int, bytes]
    """The JSON of each schema id that the table had when it was looked up."""
    encoding: RowEncoding | None = None
    """Encoding of the rows in record batches; None = Arrow."""
    columns: tuple[str, ...] | None = None
    """The columns of the rows, of those of `TableInfo.read_schema`; None = all."""

    @staticmethod
    def of(table: TableInfo, schemas: Mapping[int, bytes]) -> RowFormat:
        """Returns the format of `TableInfo.read_schema`."""
        return RowFormat(table.schema, table.table_type is TableType.PRIMARY_KEY, schemas, log_encoding(table.properties))

    @property
    def read_schema(self) -> pa.Schema:
        """Returns the schema of the rows: `TableInfo.read_schema`, or the chosen columns of it."""
        whole = pa.schema([*self.schema, *SYSTEM_COLUMN_FIELDS, *([CHANGE_TYPE_FIELD] if self.has_changes else [])])
        return whole if self.columns is None else pa.schema([whole.field(name) for name in self.columns])


def rows_of(chunks: Iterable[LogChunk], split: TieringLogSplit, row_format: RowFormat) -> Iterator[pa.RecordBatch]:
    """Yields the records of `chunks` in the split's range, with the columns of the read schema.

    Raises DataCorrupt, and SourceChanged for a record batch whose schema id is newer than the table's description. Raises BucketStopped for
    a record with a value that the table's types cannot hold, after it yielded all records before it.
    """
    assembly = _Assembly(split, row_format)
    for chunk in chunks:
        for header in chunk.headers:
            if header.stopping_offset <= split.starting_offset or header.starting_offset >= split.stopping_offset:
                continue
            if header.count:
                assembly.add(chunk, header)
            if assembly.is_full or assembly.stopped is not None:
                yield from assembly.take()
    yield from assembly.take()


@dataclass(frozen=True)
class _Piece:
    rows: pa.RecordBatch
    change_types: npt.NDArray[np.int8] | None
    starting_offset: int
    commit_ms: int
    schema_id: int


@dataclass
class _Assembly:
    """Collects pieces until they make a batch."""

    split: TieringLogSplit
    row_format: RowFormat
    pieces: list[_Piece] = field(default_factory=list)
    stopped: BucketStopped | None = None
    """The error of a record that cannot be decoded, which follows all pieces."""
    _rows: int = 0
    _bytes: int = 0
    _layouts: dict[int, LogLayout] = field(default_factory=dict)
    _bodies: dict[int, BodyReader] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._read_schema = self.row_format.read_schema

    def _decoded(self, chunk: LogChunk, header: BatchHeader, window: range) -> DecodedBatch:
        """Returns the records of a batch within `window`. Raises DataCorrupt, SourceChanged, UnwritableRow."""
        bodies = self._bodies_of(header)
        if self.row_format.encoding is not None:
            written = self._layouts[header.schema_id].written
            return decode_packed_batch(chunk.data, header, written, self.row_format.encoding, chunk.place, window)
        batch, first, count = decode_batch(chunk.data, header, bodies, chunk.place), window.start, len(window)
        kinds = batch.change_types
        return DecodedBatch(header, batch.rows.slice(first, count), None if kinds is None else kinds[first : first + count])

    def _bodies_of(self, header: BatchHeader) -> BodyReader:
        if header.schema_id not in self._layouts:
            path = self.split.table_path
            schema_json = self.row_format.schemas.get(header.schema_id)
            if schema_json is None:
                raise SourceChanged(f"the columns of {path} changed since it was looked up: its log has the schema id {header.schema_id}")
            layout = log_layout(parse_schema_json(schema_json), self.row_format.schema, str(path))
            if self.row_format.columns is not None:
                layout = layout.projected(self.row_format.columns)
            self._layouts[header.schema_id] = layout
            self._bodies[header.schema_id] = BodyReader(layout.written, MAX_DECOMPRESSED_BYTES, layout.decoded_columns)
        return self._bodies[header.schema_id]

    def add(self, chunk: LogChunk, header: BatchHeader) -> None:
        """Adds the records of a batch that are in the split, up to the first one that cannot be decoded. Raises DataCorrupt."""
        first = max(self.split.starting_offset - header.starting_offset, 0)
        window = range(first, min(header.count, self.split.stopping_offset - header.starting_offset))
        if not window:
            return
        try:
            self._add(self._decoded(chunk, header, window), window, chunk.place)
        except UnwritableRow as error:
            before = range(first, first + error.row)
            if before:
                self._add(self._decoded(chunk, header, before), before, chunk.place)
            self.stopped = self._refusal(error, header.starting_offset + before.stop, "")

    def _add(self, batch: DecodedBatch, window: range, place: LogPlace) -> None:
        header, rows, kinds = batch.header, batch.rows, batch.change_types
        if not self.row_format.has_changes and kinds is not None and kinds.any():
            raise place.corrupt("the log of a log table has a record that is not an append", header.starting_offset, header.stopping_offset)
        self.pieces.append(_Piece(rows, kinds, header.starting_offset + window.start, header.commit_ms, header.schema_id))
        self._rows += rows.num_rows
        self._bytes += rows.get_total_buffer_size()

    def _refusal(self, error: UnwritableRow, offset: int, row: str) -> BucketStopped:
        split, reason = self.split, f"its column {error.column!r} {error.reason}"
        record_text = described(row or f"column {error.column!r}", error.detail)
        place = split.table_path, split.bucket, split.partition_name, offset
        is_log = not self.row_format.has_changes
        return bucket_stopped(*place, reason, record_text, can_be_put_aside=is_log, column=error.column)

    @property
    def is_full(self) -> bool:
        # A single piece of at least half the size is passed on as it is, because joining would copy it.
        target = TARGET_BATCH_ROWS // 2 if len(self.pieces) == 1 else TARGET_BATCH_ROWS
        return self._rows >= target or self._bytes >= TARGET_BATCH_BYTES

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yields the collected pieces as a batch, if there are any, and removes them. Raises BucketStopped afterwards if a record cannot be
        decoded.
        """
        pieces = self.pieces
        self.pieces, self._rows, self._bytes = [], 0, 0
        batch = None
        while pieces and batch is None:
            try:
                batch = self._batch(pieces)
            except UnwritableRow as error:
                pieces, refused = _cut(pieces, error.row)
                self.stopped = self._refusal(error, refused.starting_offset, text_of(refused.rows))
        if batch is not None:
            yield batch
        if self.stopped is not None:
            raise self.stopped

    def _batch(self, pieces: Sequence[_Piece]) -> pa.RecordBatch:
        counts = np.array([piece.rows.num_rows for piece in pieces], dtype=np.int64)
        ends = np.cumsum(counts)
        starts = np.array([piece.starting_offset for piece in pieces], dtype=np.int64)
        commit_us = np.array([piece.commit_ms for piece in pieces], dtype=np.int64) * 1_000
        total = int(ends[-1])
        own = _joined(list(self._table_rows(pieces)))
        columns: list[pa.Array[Any]] = []
        for name in self._read_schema.names:
            if name in own.schema.names:
                columns.append(own.column(name))
            elif name == BUCKET_COLUMN:
                columns.append(pa.array(np.full(total, self.split.bucket.bucket_id, dtype=np.int32), _BUCKET_TYPE))
            elif name == OFFSET_COLUMN:
                columns.append(pa.array(np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts), _OFFSET_TYPE))
            elif name == TIMESTAMP_COLUMN:
                columns.append(pa.array(np.repeat(commit_us, counts)).view(_TIMESTAMP_TYPE))
            else:
                columns.append(pa.array(np.concatenate([_change_types(piece) for piece in pieces]), CHANGE_TYPE_FIELD.type))
        return pa.RecordBatch.from_arrays(columns, schema=self._read_schema)

    def _table_rows(self, pieces: Sequence[_Piece]) -> Iterator[pa.RecordBatch]:
        """Yields the rows in the table's columns, by schema id. Raises UnwritableRow with the row's position among all of them."""
        before = 0
        for schema_id, run in groupby(pieces, key=lambda piece: piece.schema_id):
            written = _joined([piece.rows for piece in run])
            try:
                yield self._layouts[schema_id].rows(written)
            except UnwritableRow as error:
                raise UnwritableRow(before + error.row, error.column, error.reason, error.detail) from error
            before += written.num_rows


def _cut(pieces: Sequence[_Piece], row: int) -> tuple[list[_Piece], _Piece]:
    """Returns the pieces before a row, whose number counts through all of them, and that row."""
    kept: list[_Piece] = []
    for piece in pieces:
        if row < piece.rows.num_rows:
            kinds, at = piece.change_types, piece.starting_offset + row
            if row:
                kept.append(replace(piece, rows=piece.rows.slice(0, row), change_types=None if kinds is None else kinds[:row]))
            return kept, replace(piece, rows=piece.rows.slice(row, 1), change_types=None, starting_offset=at)
        kept.append(piece)
        row -= piece.rows.num_rows
    raise AssertionError("there is no such row")


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)  # type: ignore[attr-defined]  # missing in the stubs


def _change_types(piece: _Piece) -> npt.NDArray[np.int8]:
    return np.full(piece.rows.num_rows, ChangeType.APPEND, np.int8) if piece.change_types is None else piece.change_types


_LENGTH = struct.Struct("<i")
_CHANGE_TYPE_BYTES = 1


# Rows of `table.log.format` INDEXED and COMPACTED are packed one by one. After the header, which is the same for every batch, each record
# has: `length i32, of what follows it | change type i8 | row` (Fluss 0.9.1, IndexedLogRecord and CompactedLogRecord).
def decode_packed_batch(
    data: pa.Buffer, header: BatchHeader, written: pa.Schema, encoding: RowEncoding, place: LogPlace, window: range
) -> DecodedBatch:
    """Returns those records of a batch that are in `window`, which is not empty; `written`: the columns of its schema id.

    Raises DataCorrupt, UnwritableRow for the first record of the window with a value that Lakeward's types cannot hold.
    """
    start, stop = header.position + header.records_start, header.position + header.size
    try:
        packed = PackedBytes.joined([data.slice(start, stop - start).to_pybytes()])
        records, ends = _records(data, start, stop, header.count)
        records, ends = records[window.start : window.stop], ends[window.start : window.stop]
        change_types = packed.read("i1", records + _LENGTH.size)
        if change_types.min() < ChangeType.APPEND or change_types.max() > ChangeType.DELETE:
            raise ValueError("an unknown change type")
        columns = rows_within_range(packed, records + _LENGTH.size + _CHANGE_TYPE_BYTES, ends, written, encoding)
        rows = pa.RecordBatch.from_arrays(columns, schema=written)
    except ValueError as error:
        raise damaged(f"a record batch cannot be decoded ({error})", header, place) from error
    return DecodedBatch(header, rows, change_types if change_types.any() else None)


def _records(data: pa.Buffer, start: int, stop: int, count: int) -> tuple[Positions, Positions]:
    """Returns where each record begins and ends in the packed bytes. Raises ValueError if the records do not fill `[start, stop)`."""
    at, positions = start, [start]
    for _ in range(count):
        if at + _LENGTH.size + _CHANGE_TYPE_BYTES > stop:
            raise ValueError("the batch ends within a record")
        (length,) = _LENGTH.unpack_from(data, at)
        if length < _CHANGE_TYPE_BYTES:
            raise ValueError(f"a record has a length of {length} bytes")
        at += _LENGTH.size + length
        positions.append(at)
    if at != stop:
        raise ValueError("the records do not end at the end of the batch")
    places = np.array(positions, np.int64) + (len(PADDING) - start)
    return places[:-1], places[1:]
