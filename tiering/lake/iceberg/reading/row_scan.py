"""Readers of the live rows of an Iceberg log table, a reader for each data file (`RowScan.row_readers`).

The driver reads manifests and position deletes; executors read the data files and never open the catalog.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tiering.errors import LakeUnavailable, SchemaDrift
from tiering.lake.base import LakeView
from tiering.lake.file_lists import in_source_types
from tiering.lake.iceberg.catalogs.file_io import LakeFileIO
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.iceberg.primary_key.bucket_files import LiveFile
from tiering.lake.iceberg.primary_key.parquet_files import open_parquet, whole_rows
from tiering.lake.iceberg.reading.file_lists import partition_name_of
from tiering.lake.iceberg.reading.file_pruning import file_filter
from tiering.lake.iceberg.reading.survey import files_of_log_table
from tiering.lake.iceberg.schema.columns import fields_of_source, projection
from tiering.lake.iceberg.schema.drift import drift
from tiering.lake.iceberg.writing.writer import TableState
from tiering.lake.rules.hints import PARQUET_PROPERTIES, rewrite_call
from tiering.lake.writing.keys import Mask
from tiering.model.reading.conditions import Condition
from tiering.model.reading.open_reads import AGAIN
from tiering.model.schema.field_ids import last_field_id
from tiering.model.tables import TableInfo, TablePath
from tiering.redaction.redact import remember_secrets


@dataclass(frozen=True)
class IcebergFileReader:
    """A `LakeRowReader` of one data file. `deleted` has one bit for each row of the file (`numpy.packbits`); empty = no row is deleted."""

    state: TableState
    path: TablePath
    columns: pa.Schema
    file: LiveFile
    deleted: bytes = field(default=b"", repr=False)
    partition_name: str | None = None
    """The partition of all its rows; None = unknown, or the table has no partitions."""

    @property
    def size_bytes(self) -> int:
        return self.file.size_bytes

    @property
    def records(self) -> int:
        """The number of rows of the file, deleted ones included."""
        return self.file.records

    @property
    def row_count(self) -> int:
        """The number of rows that it yields."""
        deleted = self._is_deleted()
        return self.file.records - (0 if deleted is None else int(deleted.sum()))

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        remember_secrets(self.state.storage)
        requested = pa.schema([self.columns.field(name) for name in columns])
        first, is_deleted = 0, self._is_deleted()
        with lake_errors(f"open the storage of {self.path}", table_path=self.path):
            io = LakeFileIO(dict(self.state.storage), self.state.places)
        with open_parquet(io, self.file) as parquet:
            for batch in whole_rows(parquet, self._projection(requested)):
                rows = batch if is_deleted is None else batch.filter(pa.array(~is_deleted[first : first + batch.num_rows]))
                first += batch.num_rows
                yield in_source_types(rows, requested, self._misfit)

    def _projection(self, requested: pa.Schema) -> Schema:
        """Returns the columns of files to read: at least one, because rows without columns have no count."""
        lake_schema = self.state.schema
        if last_field_id(self.columns):
            columns = fields_of_source(self.columns, lake_schema, self.state.recorded)
            return (
                projection(pa.schema([columns.field(name) for name in requested.names]))
                if requested.names
                else Schema(*lake_schema.fields[:1])
            )
        known_names = [name for name in requested.names if name in lake_schema.column_names]
        return Schema(*([lake_schema.find_field(name) for name in known_names] or lake_schema.fields[:1]))

    def _is_deleted(self) -> Mask | None:
        if not self.deleted:
            return None
        return np.unpackbits(np.frombuffer(self.deleted, np.uint8), count=self.file.records).astype(bool)

    def _misfit(self, column: str, problem: str) -> SchemaDrift:
        return drift(self.path, column, f"has in {self.file.location} {problem}")


def row_readers(
    table: TableInfo, view: LakeView | None, snapshot_id: int, conditions: Sequence[Condition] = ()
) -> Sequence[IcebergFileReader]:
    """Returns the readers of all live rows at the snapshot that may be needed (`RowScan.row_readers`)."""
    loaded = table_with(snapshot_id, view, table.path)
    with lake_errors(f"read the manifests of {table.path}", table_path=table.path):
        data, deleted = files_of_log_table(loaded, table.path, snapshot_id)
    state, may_match = TableState.of(loaded), file_filter(loaded, table.schema, conditions)
    data = [file for file in data if may_match(file)]
    for file in data:
        _check_format(table.path, file)
    return [
        IcebergFileReader(
            state,
            table.path,
            table.schema,
            LiveFile.of(file),
            packed_mask(deleted.get(file.file_path)),
            partition_name_of(loaded, file) if table.partition_keys else None,
        )
        for file in data
    ]


def table_with(snapshot_id: int, view: LakeView | None, path: TablePath) -> Table:
    """Returns the lake table of `view`. Raises LakeUnavailable if the table or its snapshot does not exist any more."""
    loaded = None if view is None else cast(Table, view.handle)
    if loaded is None or loaded.metadata.snapshot_by_id(snapshot_id) is None:
        raise LakeUnavailable(
            f"the lake table of {path} no longer has the snapshot {snapshot_id}, with which the read began",
            hint=AGAIN,
            table_path=path,
        )
    return loaded


def packed_mask(deleted: Mask | None) -> bytes:
    """Returns the mask in the form of `IcebergFileReader.deleted`."""
    return b"" if deleted is None else np.packbits(deleted).tobytes()


def _check_format(path: TablePath, file: DataFile) -> None:
    if file.file_format is not FileFormat.PARQUET:
        raise drift(
            path,
            None,
            f"holds {file.file_path}, a file of the format {file.file_format.value}, which a union read cannot read",
            f"Rewrite the files as Parquet, with the table's property {PARQUET_PROPERTIES[0]!r}: {rewrite_call(path)}.",
        )
