"""Writes one split's rows as Parquet data files of an Iceberg table (on executors).

Batches are collected to row groups and written unchanged. A column is converted only if the lake holds it in another type (8- and 16-bit
integers). Memory is bounded by one row group. A file ends at the table's target size. No file is visible in the lake before a commit names
it.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, OutputStream
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table.locations import LocationProvider

from tiering.errors import InvalidData
from tiering.lake.base import WriteResult, WriterInitContext
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.schema.types import arrow_field
from tiering.lake.iceberg.writing.data_files import DataFileBuilder, FilesPayload, encode_files
from tiering.lake.outside_errors import misfit
from tiering.lake.proof.file_footer import encode_footer
from tiering.lake.writing.encodings import choose_encodings
from tiering.lake.writing.fitting import fit_records, watched_schema
from tiering.lake.writing.provenance import Provenance
from tiering.lake.writing.row_guard import RowGuard
from tiering.lake.writing.statistics import FloatsWithoutStatistics, columns_with_statistics
from tiering.model.tables import OFFSET_COLUMN

ROW_GROUP_ROWS = 1 << 20
ROW_GROUP_BYTES = 64 << 20
"""Upper bound of the Arrow data that is in memory before it is written."""
LEAST_ROW_GROUP_BYTES = 1 << 20
"""Size of a row group of Arrow data if the table's target size of files is smaller. A file ends with a row group."""
PAGE_BYTES = 1 << 20
DICTIONARY_BYTES = 2 << 20
"""Upper bound of the dictionary of one column in one row group, above which the writer uses the plain encoding. Iceberg's default."""


@dataclass(frozen=True)
class FileTarget:
    """The target of one split's files. `prefix` begins every file name: it has the round id and the attempt nonce."""

    lake_table_uuid: str
    schema_id: int
    spec_id: int
    partition_path: str
    prefix: str
    size_bytes: int


class IcebergWriter:
    """A `LakeWriter` of log tables."""

    def __init__(self, context: WriterInitContext, files: RowFiles, guard: RowGuard) -> None:
        self._context = context
        self._files = files
        self._guard = guard
        self._watched = watched_schema(files.schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes a batch in the table's lake schema. Raises BucketStopped, InvalidData, DataCorrupt, LakeUnavailable."""
        if batch.num_rows == 0:
            return
        rows = fit_records(batch, self._watched, self._context)
        self._guard.check(rows)
        if self._files.provenance is not None:
            self._files.provenance.take_offsets(rows.column(OFFSET_COLUMN).to_numpy())
        self._files.add(rows.select(self._files.schema.names))

    def complete(self, starting_offset: int, reached_offset: int) -> WriteResult:
        """Closes all files. Raises DataCorrupt if a row's offset is outside of the range, InvalidData, LakeUnavailable."""
        self._guard.check_range(starting_offset, reached_offset)
        files, provenance = self._files.close(), self._files.provenance
        return WriteResult(
            bucket=self._context.bucket,
            starting_offset=starting_offset,
            reached_offset=reached_offset,
            records=sum(file.record_count for file in files),
            files=len(files),
            size_bytes=sum(file.file_size_in_bytes for file in files),
            payload=encode_files(self._files.payload(files)),
            checksum=None if provenance is None else provenance.checksum,
            empty=() if provenance is None else provenance.without_rows(starting_offset, reached_offset),
        )

    def abort(self) -> None:
        """Deletes the files that were written so far. Never raises: files that cannot be deleted are left to the sweep."""
        self._files.abort()


class RowFiles:
    """The data files of one attempt. A file is opened at its first row group, so an attempt without rows has no file."""

    def __init__(
        self,
        context: WriterInitContext,
        schema: Schema,
        target: FileTarget,
        io: FileIO,
        locations: LocationProvider,
        builder: DataFileBuilder,
        provenance: Provenance | None = None,
    ) -> None:
        self._context = context
        self.schema = pa.schema([arrow_field(field) for field in schema.fields])
        """The lake's columns in the types in which they are written."""
        self._target = target
        self._row_group_bytes = min(ROW_GROUP_BYTES, max(LEAST_ROW_GROUP_BYTES, target.size_bytes))
        self.io = io
        self._locations = locations
        self.builder = builder
        self.provenance = provenance
        """The totals for the files' footers, if the table has a clean layout."""
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._with_nan = FloatsWithoutStatistics()
        self._open: _OpenFile | None = None
        self._started: list[str] = []
        self._done: list[DataFile] = []

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
                self._write_row_group()

    def end_file(self) -> None:
        """Ends the open file. The next row begins another one. Raises InvalidData, LakeUnavailable."""
        self._write_row_group()
        self._close_file()

    def close(self) -> tuple[DataFile, ...]:
        """Ends all files and returns them. Raises InvalidData, LakeUnavailable."""
        self.end_file()
        return tuple(self._done)

    def expect_nan(self, columns: Collection[str]) -> None:
        """Announces that rows of these columns hold NaN, so that no file must end before the first of them (`writing.statistics`)."""
        self._with_nan.names |= frozenset(columns) & frozenset(self.schema.names)

    def payload(self, files: tuple[DataFile, ...]) -> FilesPayload:
        """Returns `files` with the table for which they were written."""
        return FilesPayload(self._target.lake_table_uuid, self._target.schema_id, self._target.spec_id, files)

    @property
    def target_bytes(self) -> int:
        """The size in bytes at which a file ends."""
        return self._target.size_bytes

    def new_location(self) -> str:
        """Returns the location of the next file of this attempt. An abort deletes that file too."""
        folder = self._target.partition_path
        name = f"{folder}{'/' if folder else ''}{self._target.prefix}-{len(self._started):05d}.parquet"
        location = self._locations.new_data_location(name)
        self._started.append(location)
        return location

    def abort(self) -> None:
        """Deletes the files that were written so far. Never raises."""
        self._batches.clear()
        if self._open is not None:
            with suppress(Exception):
                self._open.close()
            self._open = None
        for location in self._started:
            with suppress(Exception):
                self.io.delete(location)
        self._started.clear()
        self._done.clear()

    def start_over(self) -> None:
        """Deletes the files that were written so far. The rows are written again, to files with other names. Never raises."""
        names = list(self._started)
        self.abort()
        self._started = names
        self._rows = self._bytes = 0
        self._with_nan = FloatsWithoutStatistics()
        if self.provenance is not None:
            self.provenance.start_over()

    def _write_row_group(self) -> None:
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches, schema=self.schema)
        self._batches, self._rows, self._bytes = [], 0, 0
        with lake_errors(f"write a data file of {self._context.table.path}", table_path=self._context.table.path):
            if self._with_nan.adds(table):
                self._close_file()
            if self._open is None:
                self._open = self._open_file(table)
            try:
                self._open.writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
                if self.provenance is not None:
                    self.provenance.add_rows(table)
            except pa.ArrowInvalid as error:
                raise self._misfit(error) from error
            if self._open.stream.tell() >= self._target.size_bytes:
                self._close_file()

    def _open_file(self, first_rows: pa.Table) -> _OpenFile:
        location = self.new_location()
        encodings = choose_encodings(first_rows)
        stream = self.io.new_output(location).create()
        try:
            writer = pq.ParquetWriter(
                cast(Any, stream),
                self.schema,
                compression="zstd",
                use_dictionary=cast(Any, encodings.dictionary),
                column_encoding=encodings.encoding,
                data_page_size=PAGE_BYTES,
                dictionary_pagesize_limit=DICTIONARY_BYTES,
                write_statistics=columns_with_statistics(self.schema, self._with_nan.names),
                store_schema=False,
                store_decimal_as_integer=True,  # Iceberg requires it (spec, appendix A, Parquet)
            )
        except BaseException:
            stream.close()
            raise
        return _OpenFile(location, stream, writer)

    def _close_file(self) -> None:
        if self._open is None:
            return
        with lake_errors(f"write a data file of {self._context.table.path}", table_path=self._context.table.path):
            file = self._open
            if self.provenance is not None:
                file.writer.add_key_value_metadata(cast(Any, encode_footer(self.provenance.end_file())))
            size = file.close()
            self._open = None
            self._done.append(self.builder.build(file.location, size, file.writer.writer.metadata))

    def _misfit(self, error: pa.ArrowInvalid) -> InvalidData:
        path = self._context.table.path
        return misfit(f"rows of {path} do not fit its lake table", error, table_path=path, bucket=self._context.bucket)


@dataclass
class _OpenFile:
    location: str
    stream: OutputStream
    writer: pq.ParquetWriter

    def close(self) -> int:
        """Ends the file. Returns its size in bytes."""
        try:
            self.writer.close()
            return self.stream.tell()
        finally:
            self.stream.close()
