"""Writes one split's rows as Parquet data files of an Iceberg table (on executors).

A column is converted only if the lake holds it in another type (8- and 16-bit integers).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table.locations import LocationProvider

from tiering.lake.base import WriterInitContext
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.schema.types import arrow_field
from tiering.lake.iceberg.writing.data_files import DataFileBuilder, FilesPayload, encode_files
from tiering.lake.proof.file_footer import FileFooter
from tiering.lake.writing.encodings import choose_encodings
from tiering.lake.writing.parquet_stream import ROW_GROUP_BYTES, LogFilesWriter, OpenFile, ParquetStream
from tiering.lake.writing.provenance import Provenance
from tiering.lake.writing.row_guard import RowGuard
from tiering.lake.writing.statistics import FloatsWithoutStatistics

LEAST_ROW_GROUP_BYTES = 1 << 20
"""Size of a row group of Arrow data if the table's target size of files is smaller. A file ends with a row group."""


@dataclass(frozen=True)
class FileTarget:
    """The target of one split's files. `prefix` begins every file name: it has the round id and the attempt nonce."""

    lake_table_uuid: str
    schema_id: int
    spec_id: int
    partition_path: str
    prefix: str
    size_bytes: int


class RowFiles(ParquetStream["_OpenFile", DataFile]):
    """The data files of one attempt."""

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
        columns = pa.schema([arrow_field(field) for field in schema.fields])
        row_group_bytes = min(ROW_GROUP_BYTES, max(LEAST_ROW_GROUP_BYTES, target.size_bytes))
        super().__init__(context.table.path, columns, target.size_bytes, provenance, row_group_bytes, bucket=context.bucket)
        self._target = target
        self.io = io
        self._locations = locations
        self.builder = builder
        self._started: list[str] = []

    def expect_nan(self, columns: Collection[str]) -> None:
        """Announces that rows of these columns hold NaN, so that no file must end before the first of them (`writing.statistics`)."""
        self._with_nan.names |= frozenset(columns) & frozenset(self.schema.names)

    def payload(self, files: tuple[DataFile, ...]) -> FilesPayload:
        """Returns `files` with the table for which they were written."""
        return FilesPayload(self._target.lake_table_uuid, self._target.schema_id, self._target.spec_id, files)

    def new_location(self) -> str:
        """Returns the location of the next file of this attempt. An abort deletes that file too."""
        folder = self._target.partition_path
        name = f"{folder}{'/' if folder else ''}{self._target.prefix}-{len(self._started):05d}.parquet"
        location = self._locations.new_data_location(name)
        self._started.append(location)
        return location

    def start_over(self) -> None:
        """Deletes the files that were written so far. The rows are written again, to files with other names. Never raises."""
        names = list(self._started)
        self.abort()
        self._started = names
        self._rows = self._bytes = 0
        self._with_nan = FloatsWithoutStatistics()
        if self.provenance is not None:
            self.provenance.start_over()

    def _border(self) -> AbstractContextManager[None]:
        return lake_errors(f"write a data file of {self._table}", table_path=self._table)

    def _begin(self, first_rows: pa.Table) -> _OpenFile:
        return _OpenFile(self.new_location(), self.io, first_rows, self._with_nan.names)

    def _describe(self, file: _OpenFile, size_bytes: int, footer: FileFooter | None) -> DataFile:
        return self.builder.build(file.location, size_bytes, file.writer.writer.metadata)

    def _discard(self) -> None:
        for location in self._started:
            with suppress(Exception):
                self.io.delete(location)
        self._started.clear()


class _OpenFile(OpenFile):
    def __init__(self, location: str, io: FileIO, first_rows: pa.Table, without_statistics: frozenset[str]) -> None:
        self.location = location
        super().__init__(io.new_output(location).create(), first_rows.schema, choose_encodings(first_rows), without_statistics)


def log_writer(context: WriterInitContext, files: RowFiles, guard: RowGuard) -> LogFilesWriter[DataFile]:
    """Returns the `LakeWriter` of a split of a log table."""
    return LogFilesWriter(context, files, guard, lambda done: encode_files(files.payload(done)), _totals)


def _totals(files: Sequence[DataFile]) -> tuple[int, int]:
    return sum(file.record_count for file in files), sum(file.file_size_in_bytes for file in files)
