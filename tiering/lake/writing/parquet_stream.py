"""Writes Parquet files of lake tables of every format: batches are collected to row groups and written in order.

Memory is bounded by one row group. A file ends at its target size. No file is visible in the lake before a commit names it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Generic, Protocol, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tiering.lake.base import WriteResult, WriterInitContext
from tiering.lake.outside_errors import misfit
from tiering.lake.proof.file_footer import FileFooter, Run, encode_footer
from tiering.lake.writing.encodings import COMPRESSION, Encodings
from tiering.lake.writing.fitting import fit_records, watched_schema
from tiering.lake.writing.provenance import Provenance
from tiering.lake.writing.row_guard import RowGuard
from tiering.lake.writing.source_rows import Prepare, unprepared
from tiering.lake.writing.statistics import FloatsWithoutStatistics, columns_with_statistics
from tiering.model.tables import OFFSET_COLUMN, TablePath

ROW_GROUP_ROWS = 1 << 20
ROW_GROUP_BYTES = 64 << 20
"""Upper bound of the Arrow data that is in memory before it is written."""
PAGE_BYTES = 1 << 20
DICTIONARY_BYTES = 2 << 20
"""Upper bound of the dictionary of one column in one row group, above which the writer uses the plain encoding. Iceberg's default."""


class OpenFile:
    """A Parquet file that is being written to `stream`. Its columns and encodings are those of `first_rows`."""

    def __init__(self, stream: Any, schema: pa.Schema, encodings: Encodings, without_statistics: frozenset[str]) -> None:
        """Closes the stream if the file cannot be begun. Float columns in `without_statistics` get no statistics."""
        self.stream = stream
        try:
            self.writer = pq.ParquetWriter(
                stream,
                schema,
                compression=COMPRESSION,
                use_dictionary=cast(Any, encodings.dictionary),
                column_encoding=encodings.encoding or None,
                data_page_size=PAGE_BYTES,
                dictionary_pagesize_limit=DICTIONARY_BYTES,
                write_statistics=columns_with_statistics(schema, without_statistics),
                store_schema=False,
                store_decimal_as_integer=True,  # Iceberg requires it (spec, appendix A, Parquet)
            )
        except BaseException:
            stream.close()
            raise

    def look_at(self, table: pa.Table) -> None:
        """Takes note of rows that were written."""

    def sync(self) -> None:
        """Makes the written bytes durable, for streams that do not do so when they are closed."""

    def end(self, footer: FileFooter | None = None) -> int:
        """Ends the file, with its footer. Returns its size in bytes."""
        try:
            if footer is not None:
                self.writer.add_key_value_metadata(cast(Any, encode_footer(footer)))
            self.writer.close()
            self.sync()
            size: int = self.stream.tell()
            return size
        finally:
            self.stream.close()


File = TypeVar("File", bound=OpenFile)
Done = TypeVar("Done")
Ended = TypeVar("Ended", covariant=True)


class FileStream(ABC, Generic[File, Done]):
    """The Parquet files of one attempt, in the order of its rows. A file is opened at its first row group, so an attempt without rows has
    no file.
    """

    def __init__(self, table: TablePath, schema: pa.Schema, target_bytes: int, provenance: Provenance | None, **ids: object) -> None:
        """`ids` are added to the error for rows that do not fit the lake table."""
        self.schema = schema
        """The lake's columns in the types in which they are written."""
        self.target_bytes = target_bytes
        """The size in bytes at which a file ends."""
        self.row_group_rows = ROW_GROUP_ROWS
        """Upper bound of the rows of a row group."""
        self.provenance = provenance
        """Set for a table with a clean layout: collects the offsets of the rows, and the content of the file footers."""
        self._table = table
        self._ids = ids
        self._with_nan = FloatsWithoutStatistics()
        self._open: File | None = None
        self._done: list[Done] = []

    @abstractmethod
    def _border(self) -> AbstractContextManager[None]:
        """Returns a context that turns errors of the lake format into LakeUnavailable."""

    @abstractmethod
    def _begin(self, first_rows: pa.Table) -> File:
        """Opens the next file. Raises the format's own errors."""

    @abstractmethod
    def _describe(self, file: File, size_bytes: int, footer: FileFooter | None) -> Done:
        """Returns the description of a file that has ended."""

    @abstractmethod
    def _discard(self) -> None:
        """Deletes the files that were begun. Never raises: files that cannot be deleted are left to the sweep."""

    def _flush(self) -> None:
        """Writes the rows that are collected in memory."""

    def _write(self, table: pa.Table) -> None:
        """Writes a row group. Raises InvalidData, LakeUnavailable."""
        with self._border():
            if self._with_nan.adds(table):
                self._close_file()
            if self._open is None:
                self._open = self._begin(table)
            try:
                self._open.writer.write_table(table, row_group_size=self.row_group_rows)
                self._prove(table)
            except pa.ArrowInvalid as error:
                raise misfit(f"rows of {self._table} do not fit its lake table", error, table_path=self._table, **self._ids) from error
            self._open.look_at(table)
            if self._open.stream.tell() >= self.target_bytes:
                self._close_file()

    def _prove(self, table: pa.Table) -> None:
        """Adds the rows to the content of the file's footer."""
        if self.provenance is not None:
            self.provenance.add_rows(table)

    def _footer(self) -> FileFooter | None:
        return None if self.provenance is None else self.provenance.end_file()

    def _close_file(self) -> None:
        if self._open is None:
            return
        with self._border():
            file, self._open = self._open, None
            footer = self._footer()
            size = file.end(footer)
            self._done.append(self._describe(file, size, footer))

    def end_file(self) -> None:
        """Ends the open file. The next row begins another one. Raises InvalidData, LakeUnavailable."""
        self._flush()
        self._close_file()

    def close(self) -> tuple[Done, ...]:
        """Ends all files and returns them. Raises InvalidData, LakeUnavailable."""
        self.end_file()
        return tuple(self._done)

    def abort(self) -> None:
        """Deletes the files that were written so far. Never raises."""
        if self._open is not None:
            with suppress(Exception):
                self._open.end()
            self._open = None
        self._discard()
        self._done.clear()


class ParquetStream(FileStream[File, Done]):
    """Files to which rows are added batch by batch. Batches are collected to row groups."""

    def __init__(
        self, table: TablePath, schema: pa.Schema, target_bytes: int, provenance: Provenance | None, row_group_bytes: int, **ids: object
    ) -> None:
        super().__init__(table, schema, target_bytes, provenance, **ids)
        self._row_group_bytes = row_group_bytes
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Takes rows of `schema`. Raises InvalidData, LakeUnavailable."""
        remaining_rows = rows
        while remaining_rows.num_rows:
            part = remaining_rows.slice(0, ROW_GROUP_ROWS - self._rows)
            remaining_rows = remaining_rows.slice(part.num_rows)
            self._batches.append(part)
            self._rows += part.num_rows
            self._bytes += part.nbytes
            if self._rows >= ROW_GROUP_ROWS or self._bytes >= self._row_group_bytes:
                self._flush()

    @property
    def buffered_bytes(self) -> int:
        """The bytes of the rows that are collected in memory."""
        return self._bytes

    @property
    def is_open(self) -> bool:
        """Whether a file is open."""
        return self._open is not None

    def flush(self) -> None:
        """Writes the collected rows as a row group. Raises InvalidData, LakeUnavailable."""
        self._flush()

    def add_records(self, rows: pa.RecordBatch) -> None:
        """Takes records of a log in the order of their offsets, which are in their column. Raises InvalidData, LakeUnavailable."""
        if self.provenance is not None:
            self.provenance.take_offsets(rows.column(OFFSET_COLUMN).to_numpy())
        self.add(rows.select(self.schema.names))

    @property
    def checksum(self) -> int | None:
        """Checksum of all rows (`WriteResult.checksum`); None unless the layout is clean."""
        return None if self.provenance is None else self.provenance.checksum

    def without_rows(self, start: int, stop: int) -> tuple[Run, ...]:
        """Returns those offsets of `[start, stop)` that have no row; none unless the layout is clean."""
        return () if self.provenance is None else self.provenance.without_rows(start, stop)

    def abort(self) -> None:
        self._batches.clear()
        super().abort()

    def _flush(self) -> None:
        if self._batches:
            self._write(self._collected())

    def _collected(self) -> pa.Table:
        """Returns the rows that are collected in memory, and begins to collect again."""
        table = pa.Table.from_batches(self._batches, schema=self.schema)
        self._batches, self._rows, self._bytes = [], 0, 0
        return table


class LogFiles(Protocol[Ended]):
    """The files of one split of a log table, as `ParquetStream` has them."""

    schema: pa.Schema

    def add_records(self, rows: pa.RecordBatch) -> None: ...

    def close(self) -> tuple[Ended, ...]: ...

    def abort(self) -> None: ...

    @property
    def checksum(self) -> int | None: ...

    def without_rows(self, start: int, stop: int) -> tuple[Run, ...]: ...


class LogFilesWriter(Generic[Done]):
    """A `LakeWriter` of log tables. `totals` counts the rows and bytes of files; `encode` returns the payload that describes them."""

    def __init__(
        self,
        context: WriterInitContext,
        files: LogFiles[Done],
        guard: RowGuard,
        encode: Callable[[tuple[Done, ...]], bytes],
        totals: Callable[[Sequence[Done]], tuple[int, int]],
        prepare: Prepare = unprepared,
    ) -> None:
        self._context = context
        self._files = files
        self._guard = guard
        self._encode = encode
        self._totals = totals
        self._prepare = prepare
        self._watched = watched_schema(files.schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes a batch in the table's lake schema. Raises BucketStopped, InvalidData, DataCorrupt, LakeUnavailable."""
        if batch.num_rows == 0:
            return
        rows = fit_records(self._prepare(batch, self._watched), self._watched, self._context)
        self._guard.check(rows)
        self._files.add_records(rows)

    def complete(self, starting_offset: int, reached_offset: int) -> WriteResult:
        """Closes all files. Raises DataCorrupt if a row's offset is outside of the range, InvalidData, LakeUnavailable."""
        self._guard.check_range(starting_offset, reached_offset)
        files = self._files.close()
        records, size_bytes = self._totals(files)
        return WriteResult(
            bucket=self._context.bucket,
            starting_offset=starting_offset,
            reached_offset=reached_offset,
            records=records,
            files=len(files),
            size_bytes=size_bytes,
            payload=self._encode(files),
            checksum=self._files.checksum,
            empty=self._files.without_rows(starting_offset, reached_offset),
        )

    def abort(self) -> None:
        """Deletes the files that were written so far. Never raises: files that cannot be deleted are left to the sweep."""
        self._files.abort()
