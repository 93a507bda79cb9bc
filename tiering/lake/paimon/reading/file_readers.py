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
from tiering.lake.outside_errors import DAMAGED_HINT
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.data_files import open_data_file
from tiering.lake.paimon.reading.file_columns import FileColumns
from tiering.lake.paimon.storage.base import Storage
from tiering.lake.paimon.upkeep.rewriting import RUN_BATCH_ROWS, DataFile, merged_rows
from tiering.lake.paimon.writing.sorted_files import KEY_PREFIX, KIND, KIND_FIELD, SEQUENCE, TAKES_AWAY
from tiering.lake.rules.hints import tier_call
from tiering.model.tables import TablePath

BATCH_ROWS = 1 << 16

OWN_FIELDS = (pa.field(SEQUENCE, pa.int64(), nullable=False), KIND_FIELD)
"""Columns of Paimon that each file of a primary-key table has."""

Run = tuple[DataFile, ...]
"""Files whose rows are in the order of their keys, from file to file as well."""


@dataclass(frozen=True)
class TableFiles:
    """The place of a table's files, its columns at the source, and those that the files have. Can be pickled."""

    storage: Storage
    root: str
    path: TablePath
    columns: pa.Schema
    numbered: pa.Schema
    """`columns` with field ids, also if the cluster numbers no columns."""
    stored: FileColumns

    def batches(self, file: DataFile, requested: pa.Schema, batch_rows: int, extra: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a file: its columns `extra` as it has them, then the columns `requested` of the source.

        Raises LakeUnavailable, DataCorrupt, SchemaDrift.
        """
        path, rows = PurePath(self.root) / file.path, 0
        with lake_errors(f"read {file.path} of {self.path}", table_path=self.path), open_data_file(self.storage, path) as parquet:
            present = parquet.schema_arrow.names
            if missing := [name for name in extra if name not in present]:
                raise self.drift(None, f"has the file {file.path}, which lacks the column {missing[0]!r}")
            numbered = pa.schema([self.numbered.field(name) for name in requested.names])
            names = {*extra, *self.stored.names(file.schema_id, list(numbered))}
            # Parquet names columns by dotted paths, so all columns are read if a name has a dot.
            chosen = None if any("." in name for name in present) else [name for name in present if name in names]
            for batch in parquet.iter_batches(batch_rows, columns=chosen, use_threads=False):
                rows += batch.num_rows
                values = self.stored.converted(batch, file.schema_id, numbered, self.misfit)
                fields = [batch.schema.field(name) for name in extra]
                columns = [*(batch.column(name) for name in extra), *values.columns]
                yield pa.RecordBatch.from_arrays(columns, schema=pa.schema([*fields, *requested]))
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
        yield from self.files.batches(self.file, pa.schema([self.files.columns.field(name) for name in columns]), BATCH_ROWS)


@dataclass(frozen=True)
class PaimonBucketReader:
    """A `LakeRowReader` of one bucket of a primary-key table. `key`: the columns by which Paimon sorts."""

    files: TableFiles
    key: pa.Schema
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
        keys = [KEY_PREFIX + column.name for column in self.key]
        runs = [self._rows_of(run, keys, requested) for run in self.runs]
        rows = merged_rows(runs, keys, drops_deletes=True) if len(runs) > 1 else map(_without_deletes, *runs)
        for table in rows:
            yield from table.select(requested.names).to_batches()

    def _rows_of(self, run: Run, keys: Sequence[str], requested: pa.Schema) -> Iterator[pa.Table]:
        own = [*(pa.field(name, column.type, nullable=False) for name, column in zip(keys, self.key, strict=True)), *OWN_FIELDS]
        schema = pa.schema([*own, *requested])
        for file in run:
            for batch in self.files.batches(file, requested, RUN_BATCH_ROWS, [field.name for field in own]):
                yield pa.Table.from_batches([batch]).cast(schema)


def _without_deletes(rows: pa.Table) -> pa.Table:
    takes_away = pc.is_in(rows[KIND], value_set=TAKES_AWAY)
    return rows.filter(pc.invert(takes_away)) if pc.any(takes_away).as_py() else rows
