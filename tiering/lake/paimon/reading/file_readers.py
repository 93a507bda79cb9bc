"""Reads the live rows of Paimon data files on executors, which have no pypaimon (`LakeRowReader`).

In a bucket with a primary key, of the rows of a key the one with the highest sequence number counts, unless it is a delete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import pyarrow as pa
import pyarrow.compute as pc

from tiering.errors import DataCorrupt, SchemaDrift
from tiering.lake.file_lists import in_source_types
from tiering.lake.outside_errors import DAMAGED_HINT
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.data_files import open_data_file
from tiering.lake.paimon.storage.base import Storage
from tiering.lake.paimon.upkeep.rewriting import RUN_BATCH_ROWS, DataFile, in_columns, merged_rows
from tiering.lake.paimon.writing.sorted_files import KEY_PREFIX, KIND, TAKES_AWAY, sorted_schema
from tiering.lake.rules.hints import tier_call
from tiering.model.tables import TablePath

BATCH_ROWS = 1 << 16

Run = tuple[DataFile, ...]
"""Files whose rows are in the order of their keys, from file to file as well."""


@dataclass(frozen=True)
class TableFiles:
    """The place of a table's files, and its columns at the source. Can be pickled."""

    storage: Storage
    root: str
    path: TablePath
    columns: pa.Schema

    def batches(self, file: DataFile, names: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a file with those of the columns `names` that it has. Raises LakeUnavailable, DataCorrupt."""
        path, rows = PurePath(self.root) / file.path, 0
        with lake_errors(f"read {file.path} of {self.path}", table_path=self.path), open_data_file(self.storage, path) as parquet:
            stored = parquet.schema_arrow.names
            # Parquet names columns by dotted paths, so all columns are read if a name has a dot.
            requested = None if any("." in name for name in stored) else [name for name in names if name in stored]
            for batch in parquet.iter_batches(batch_rows, columns=requested, use_threads=False):
                rows += batch.num_rows
                yield batch
        if rows != file.rows:
            raise DataCorrupt(
                f"{file.path} has {rows} rows; the lake table says {file.rows}",
                hint=DAMAGED_HINT,
                table_path=self.path,
                lake_file=file.path,
            )

    def misfit(self, column: str, problem: str) -> SchemaDrift:
        """Returns the error for values that do not fit the source's column."""
        return self.drift(column, f"has {problem}")

    def drift(self, column: str | None, difference: str) -> SchemaDrift:
        """Returns the error for a lake table that does not fit."""
        hint = f"Repair the lake table, then {tier_call(self.path)}."
        return SchemaDrift(f"the lake table {self.path} {difference}", hint=hint, table_path=self.path, column=column)


@dataclass(frozen=True)
class PaimonFileReader:
    """A `LakeRowReader` of one data file of a log table."""

    files: TableFiles
    file: DataFile
    partition_name: str | None = None
    """The partition of all its rows; None = unknown, or the table has no partitions."""
    bucket_id: int | None = None
    """The bucket of all its rows; None = they may be of any bucket."""

    @property
    def size_bytes(self) -> int:
        return self.file.size_bytes

    @property
    def records(self) -> int:
        """The number of rows of the file."""
        return self.file.rows

    @property
    def row_count(self) -> int:
        """The number of rows that it yields."""
        return self.file.rows

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        requested = pa.schema([self.files.columns.field(name) for name in columns])
        for batch in self.files.batches(self.file, columns, BATCH_ROWS):
            yield in_source_types(batch, requested, self.files.misfit)


@dataclass(frozen=True)
class PaimonBucketReader:
    """A `LakeRowReader` of one bucket of a primary-key table. `key`: the key by which Paimon sorts. `stored`: the lake table's columns."""

    files: TableFiles
    key: tuple[str, ...]
    stored: pa.Schema
    runs: tuple[Run, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for run in self.runs for file in run)

    @property
    def records(self) -> int:
        """The number of rows of the files, superseded ones included."""
        return sum(file.rows for run in self.runs for file in run)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        requested = pa.schema([self.files.columns.field(name) for name in columns])
        lake_columns = pa.schema([self.stored.field(name) for name in columns if name in self.stored.names])
        keys = pa.schema([pa.field(KEY_PREFIX + name, self.stored.field(name).type, nullable=False) for name in self.key])
        schema = pa.schema([*keys, *list(sorted_schema(lake_columns, ()))])
        runs = [self._rows_of(run, schema) for run in self.runs]
        rows = merged_rows(runs, keys.names, drops_deletes=True) if len(runs) > 1 else map(_without_deletes, *runs)
        for batch in (batch for table in rows for batch in table.select(lake_columns.names).to_batches()):
            yield in_source_types(batch, requested, self.files.misfit)

    def _rows_of(self, run: Run, schema: pa.Schema) -> Iterator[pa.Table]:
        for file in run:
            for batch in self.files.batches(file, schema.names, RUN_BATCH_ROWS):
                missing = [name for name in schema.names[: len(self.key) + 2] if name not in batch.schema.names]
                if missing:
                    raise self.files.drift(None, f"has the file {file.path}, which lacks the column {missing[0]!r}")
                yield pa.Table.from_batches([in_columns(batch, schema)])


def _without_deletes(rows: pa.Table) -> pa.Table:
    takes_away = pc.is_in(rows[KIND], value_set=TAKES_AWAY)
    return rows.filter(pc.invert(takes_away)) if pc.any(takes_away).as_py() else rows
