"""Writes one split's rows as Parquet data files of an Iceberg table (on executors).

A column is converted only if the lake holds it in another type (8- and 16-bit integers).
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortDirection, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from tiering.lake.base import WriterInitContext
from tiering.lake.iceberg.catalogs.file_io import io_of, locations_of
from tiering.lake.iceberg.catalogs.locations import AllowedLocations
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.schema.columns import lake_columns
from tiering.lake.iceberg.schema.layout import layout_of_schema, own_fields
from tiering.lake.iceberg.schema.partition_values import PartitionValue
from tiering.lake.iceberg.schema.types import arrow_field
from tiering.lake.iceberg.writing.data_files import DataFileBuilder, FilesPayload, encode_files
from tiering.lake.iceberg_options import allowed_properties
from tiering.lake.proof.file_footer import FileFooter
from tiering.lake.schema.column_ids import COLUMN_IDS, ColumnIds, lake_columns_of_source, proof_columns
from tiering.lake.schema.file_order import SortEntry
from tiering.lake.table_options import SORT
from tiering.lake.writing.encodings import choose_encodings
from tiering.lake.writing.parquet_stream import ROW_GROUP_BYTES, LogFiles, LogFilesWriter, OpenFile, ParquetStream
from tiering.lake.writing.provenance import Provenance, file_prefix
from tiering.lake.writing.row_guard import RowGuard
from tiering.lake.writing.sorted_rows import sorted_rows
from tiering.lake.writing.source_rows import Prepare, in_lake_columns
from tiering.lake.writing.statistics import FloatsWithoutStatistics
from tiering.model.tables import TableInfo

_PLAIN_PART = re.compile(r"[A-Za-z0-9_.=-]{1,160}")
"""A folder's name that every storage has and that no reader decodes. Percent signs in the location of a local file are read in two ways."""
_SHORTENED_CHARACTERS = 80
LEAST_ROW_GROUP_BYTES = 1 << 20
"""Size of a row group of Arrow data if the table's target size of files is smaller. A file ends with a row group."""
SORTED_GROUP_ROWS = 1 << 17
"""Upper bound of the rows of a row group in sorted files, so that readers skip more of them. DuckDB writes groups of about this size."""


@dataclass(frozen=True)
class TableState:
    """The facts of a lake table that a writer needs, as plain values."""

    table_uuid: str
    location: str
    schema_json: str
    spec_json: str
    sort_order_json: str
    properties: Mapping[str, str]
    """The allowed properties (`iceberg_options`). All others stay on the driver."""
    column_ids: str
    """The property COLUMN_IDS; empty = the table has none."""
    places: AllowedLocations
    storage: Mapping[str, str] = field(repr=False)
    """Settings of the storage only, from the catalog's properties. They may contain its keys."""

    @staticmethod
    def of(table: Table) -> TableState:
        """Returns the state of a loaded table."""
        metadata, io = table.metadata, io_of(table)
        return TableState(
            table_uuid=str(metadata.table_uuid),
            location=table.location(),
            schema_json=metadata.schema().model_dump_json(),
            spec_json=metadata.spec().model_dump_json(),
            sort_order_json=metadata.sort_order().model_dump_json(),
            properties=allowed_properties(metadata.properties),
            column_ids=metadata.properties.get(COLUMN_IDS, ""),
            places=io.places,
            storage=dict(io.properties),
        )

    @cached_property
    def schema(self) -> Schema:
        return Schema.model_validate_json(self.schema_json)

    @cached_property
    def spec(self) -> PartitionSpec:
        return PartitionSpec.model_validate_json(self.spec_json)

    @cached_property
    def sort_order(self) -> SortOrder:
        return SortOrder.model_validate_json(self.sort_order_json)

    @cached_property
    def recorded(self) -> ColumnIds | None:
        """The source's field ids of the columns; None = the table has no record of them."""
        return ColumnIds.parse(self.column_ids) if self.column_ids else None

    @cached_property
    def proof_names(self) -> pa.Schema:
        """The columns with the names that seed checksums of rows."""
        return proof_columns(lake_columns(self.schema), self.recorded)

    def payload(self, files: tuple[DataFile, ...]) -> FilesPayload:
        """Returns `files` with the table for which they were written."""
        return FilesPayload(self.table_uuid, self.schema.schema_id, self.spec.spec_id, files)

    def prepare(self, table: TableInfo) -> Prepare:
        """Returns the function that gives rows of the source the columns of the lake table."""
        return in_lake_columns(table.schema, lake_columns_of_source(table.schema, lake_columns(self.schema), self.recorded))


def file_columns(schema: Schema) -> pa.Schema:
    """Returns the columns of data files, in the types in which they are written."""
    return pa.schema([arrow_field(field) for field in schema.fields])


class RowFiles(ParquetStream["_OpenFile", DataFile]):
    """The data files of one attempt in the partition `values`. They end at `size_bytes`, and have names with these `numbers`."""

    def __init__(
        self,
        context: WriterInitContext,
        state: TableState,
        values: PartitionValue,
        io: FileIO,
        size_bytes: int,
        numbers: Iterator[int] | None = None,
    ) -> None:
        columns = file_columns(state.schema)
        provenance = None if layout_of_schema(state.schema).has_row_offsets else Provenance(context, state.proof_names)
        row_group_bytes = min(ROW_GROUP_BYTES, max(LEAST_ROW_GROUP_BYTES, size_bytes))
        super().__init__(context.table.path, columns, size_bytes, provenance, row_group_bytes, bucket=context.bucket)
        self.context = context
        self.state = state
        self.io = io
        self.builder = DataFileBuilder(state.schema, dict(state.properties), state.spec.spec_id, values)
        self._locations = locations_of(state.location, state.properties)
        folder = _folder(context, state, values)  # in Hive's form: `region=north/__bucket=3`
        self.sort_keys = sort_keys(context.table, state)
        """The columns by which the rows of each file are sorted; empty = they stay as they come."""
        self._sorts_rows = bool(self.sort_keys)
        if self.sort_keys:
            self.row_group_rows = SORTED_GROUP_ROWS
            self.builder.sort_order_id = state.sort_order.order_id
        if provenance is not None:
            provenance.is_sorted = bool(self.sort_keys)
        self._prefix = f"{folder}{'/' if folder else ''}{file_prefix(context)}"
        self._numbers = itertools.count() if numbers is None else numbers
        self._started: list[str] = []

    def expect_sorted_rows(self) -> None:
        """Announces that all rows come in the order of `sort_keys`, and fill one file."""
        self._sorts_rows = False

    def _flush(self) -> None:
        if not self._sorts_rows or not self._batches:
            super()._flush()
            return
        self._write(sorted_rows(self._collected(), self.sort_keys))
        self._close_file()  # so the file is sorted as a whole

    def expect_nan(self, columns: Collection[str]) -> None:
        """Announces that rows of these columns hold NaN, so that no file must end before the first of them (`writing.statistics`)."""
        self._with_nan.names |= frozenset(columns) & frozenset(self.schema.names)

    def payload(self, files: tuple[DataFile, ...]) -> FilesPayload:
        """Returns `files` with the table for which they were written."""
        return self.state.payload(files)

    def new_location(self) -> str:
        """Returns the location of the next file of this attempt. An abort deletes that file too."""
        location = self._locations.new_data_location(f"{self._prefix}-{next(self._numbers):05d}.parquet")
        self._started.append(location)
        return location

    def start_over(self) -> None:
        """Deletes the files that were written so far. The rows are written again, to files with other names. Never raises."""
        self.abort()
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


def sort_keys(table: TableInfo, state: TableState) -> tuple[SortEntry, ...]:
    """Returns the columns by which the rows of new data files are sorted; empty = they stay in the order of their offsets.

    A lake table of a source table without the option may have a sort order: that of the offsets, or one that a user gave it for other
    writers. Before the first round after a change of the option, a user's order may have transforms or nested columns, too."""
    columns, fields = {field.field_id: field.name for field in state.schema.fields}, state.sort_order.fields
    is_plain = all(isinstance(field.transform, IdentityTransform) and field.source_id in columns for field in fields)
    if not SORT.of(table.properties) or not is_plain or layout_of_schema(state.schema).has_row_offsets:
        return ()
    return tuple(
        SortEntry(columns[field.source_id], field.direction is SortDirection.DESC, field.null_order is NullOrder.NULLS_FIRST)
        for field in fields
    )


def sort_order_id(table: TableInfo, state: TableState) -> int | None:
    """Returns the sort order of new data files; None = they are not sorted."""
    return state.sort_order.order_id if sort_keys(table, state) else None


def _folder(context: WriterInitContext, state: TableState, values: PartitionValue) -> str:
    """Returns the folder of a partition value. The values of the option's fields may be any text, so a part that is no plain name is
    shortened. Partitions of the source have plain names."""
    parts = state.spec.partition_to_path(Record(*values), state.schema).split("/")
    own = own_fields(context.table, layout_of_schema(state.schema))
    return "/".join([*parts[:own], *(part if _PLAIN_PART.fullmatch(part) else _shortened(part) for part in parts[own:])])


def _shortened(part: str) -> str:
    plain = re.sub("[^A-Za-z0-9_.=-]", "_", part[:_SHORTENED_CHARACTERS])
    return f"{plain}-{hashlib.sha256(part.encode()).hexdigest()[:16]}"


class _OpenFile(OpenFile):
    def __init__(self, location: str, io: FileIO, first_rows: pa.Table, without_statistics: frozenset[str]) -> None:
        self.location = location
        super().__init__(io.new_output(location).create(), first_rows.schema, choose_encodings(first_rows), without_statistics)


def log_writer(context: WriterInitContext, files: LogFiles[DataFile], state: TableState, guard: RowGuard) -> LogFilesWriter[DataFile]:
    """Returns the `LakeWriter` of a split of a log table."""
    prepare = state.prepare(context.table)
    return LogFilesWriter(context, files, guard, lambda done: encode_files(state.payload(done)), _totals, prepare)


def _totals(files: Sequence[DataFile]) -> tuple[int, int]:
    return sum(file.record_count for file in files), sum(file.file_size_in_bytes for file in files)
