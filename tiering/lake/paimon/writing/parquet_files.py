"""Writes the Parquet files of one attempt in one bucket of a Paimon table.

Only encodings that Paimon's Java reader supports are used (`VectorizedColumnReader`): no BYTE_STREAM_SPLIT.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from tiering.lake.base import WriterInitContext
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.storage.base import Storage, discard
from tiering.lake.paimon.storage.local import LOCAL
from tiering.lake.paimon.writing.payload import FilesPayload, WrittenFile, encode_files
from tiering.lake.proof.file_footer import FileFooter
from tiering.lake.writing.encodings import Encodings, choose_encodings
from tiering.lake.writing.fitting import fit
from tiering.lake.writing.parquet_stream import ROW_GROUP_BYTES, FileStream, LogFilesWriter, OpenFile, ParquetStream
from tiering.lake.writing.provenance import Provenance
from tiering.lake.writing.row_guard import RowGuard
from tiering.lake.writing.source_rows import Prepare
from tiering.model.tables import OFFSET_COLUMN, TIMESTAMP_COLUMN, TablePath

TARGET_FILE_BYTES = 256 << 20
"""Paimon's default of `target-file-size` for tables without a primary key."""
_BOUNDED = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32())


@dataclass(frozen=True)
class FilePlace:
    """The place of the files of one attempt: `folder` below the table's folder `root`; `prefix` begins their names."""

    table: TablePath
    root: PurePath
    folder: str
    prefix: str
    storage: Storage = LOCAL

    def begin_file(self, name: str) -> PurePath:
        """Creates the folder if needed, and returns the path of a new file in it. Raises OSError."""
        folder = self.root / self.folder
        self.storage.make_folder(folder)
        return folder / name

    def sync(self) -> None:
        """Makes the names of all files durable. Raises OSError."""
        self.storage.sync_folder(self.root / self.folder)


AnyFile = TypeVar("AnyFile", bound="ListedFile")


class PaimonFiles(FileStream[AnyFile, WrittenFile]):
    """The common properties of all files of an attempt."""

    _place: FilePlace
    _started: list[PurePath]

    def close(self) -> tuple[WrittenFile, ...]:
        """Finishes all files, which are durable afterwards. Raises InvalidData, LakeUnavailable."""
        files = super().close()
        if files:
            with self._border():
                self._place.sync()
        return files

    @contextmanager
    def aborted_on_error(self) -> Iterator[None]:
        """Deletes the files that were written so far if the block raises."""
        try:
            yield
        except BaseException:
            self.abort()
            raise

    def _border(self) -> AbstractContextManager[None]:
        return lake_errors(f"write a data file of {self._table}", table_path=self._table)

    def _next_path(self, kind: str = "") -> PurePath:
        path = self._place.begin_file(f"{self._place.prefix}-{kind}{len(self._started):05d}.parquet")
        self._started.append(path)
        return path

    def _discard(self) -> None:
        discard(self._place.storage, self._started)
        self._started.clear()


class ParquetFiles(PaimonFiles["ListedFile"], ParquetStream["ListedFile", WrittenFile]):
    """Writes rows to files in the given order. The offsets of the rows are their sequence numbers."""

    def __init__(
        self, place: FilePlace, schema: pa.Schema, provenance: Provenance | None = None, target_bytes: int = TARGET_FILE_BYTES
    ) -> None:
        super().__init__(place.table, schema, target_bytes, provenance, ROW_GROUP_BYTES)
        self._place = place
        self._started = []

    def _begin(self, first_rows: pa.Table) -> ListedFile:
        return ListedFile(self._place.storage, self._next_path(), first_rows, self._with_nan.names)

    def _describe(self, file: ListedFile, size_bytes: int, footer: FileFooter | None) -> WrittenFile:
        low, high = file.bounds[OFFSET_COLUMN][:2] if footer is None else (footer.runs[0][0], footer.runs[-1][1] - 1)
        bounds = dict(file.bounds)
        return WrittenFile(self._place.folder, file.path.name, size_bytes, file.records, cast(int, low), cast(int, high), bounds)


def java_encodings(first_rows: pa.Table) -> Encodings:
    """Returns the encodings of `choose_encodings` that Paimon's Java reader supports; all other columns are plain."""
    encodings = choose_encodings(first_rows)
    return Encodings(encodings.dictionary, {name: kind for name, kind in encodings.encoding.items() if kind != "BYTE_STREAM_SPLIT"})


class ListedFile(OpenFile):
    """A file that is being written, and the values of its later manifest entry."""

    def __init__(self, storage: Storage, path: PurePath, first_rows: pa.Table, without_statistics: frozenset[str]) -> None:
        """Begins a file with the columns of `first_rows`, and encodings that suit these rows. Raises OSError."""
        encodings = java_encodings(first_rows)
        super().__init__(storage.create_file(path), first_rows.schema, encodings, without_statistics)
        self._storage = storage
        self.path = path
        self.records = 0
        self.bounds: dict[str, tuple[int | None, int | None, int]] = {}

    def look_at(self, table: pa.Table) -> None:
        """Counts rows, and extends the bounds of columns of integers and dates."""
        self.records += table.num_rows
        for name, column in zip(table.column_names, table.columns, strict=True):
            if column.type not in _BOUNDED:
                continue
            values: Any = column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
            extremes: Any = pc.min_max(values)
            low, high, nulls = self.bounds.get(name, (None, None, 0))
            lows = [value for value in (low, extremes["min"].as_py()) if value is not None]
            highs = [value for value in (high, extremes["max"].as_py()) if value is not None]
            self.bounds[name] = (min(lows, default=None), max(highs, default=None), nulls + column.null_count)

    def sync(self) -> None:
        self._storage.sync_file(self.stream)


def log_writer(
    context: WriterInitContext, target: FilesPayload, files: ParquetFiles, guard: RowGuard, prepare: Prepare
) -> LogFilesWriter[WrittenFile]:
    """Returns the `LakeWriter` of a split of a log table. `target`: the payload without its files."""
    return LogFilesWriter(context, files, guard, lambda done: encode_files(replace(target, files=done)), _totals, prepare)


def _totals(files: Sequence[WrittenFile]) -> tuple[int, int]:
    return sum(file.records for file in files), sum(file.size_bytes for file in files)


def paimon_rows(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Converts `batch` to `columns`, with nulls in those that it lacks; columns that already fit are not copied. Raises InvalidData for a
    value that does not fit.

    `__timestamp` has milliseconds, as in Fluss; the microseconds of a log are dropped.
    """
    for column in columns:
        if column.name not in batch.schema.names:
            batch = batch.append_column(column, pa.nulls(batch.num_rows, column.type))
    return fit(with_milliseconds(batch, columns), columns)


def with_milliseconds(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Returns `batch` with `__timestamp` in the type of `columns`; the microseconds of a log are dropped."""
    index = batch.schema.get_field_index(TIMESTAMP_COLUMN)
    if index >= 0 and TIMESTAMP_COLUMN in columns.names:
        field = columns.field(TIMESTAMP_COLUMN)
        if batch.column(index).type != field.type:
            batch = batch.set_column(index, field, pc.cast(batch.column(index), field.type, safe=False))
    return batch
