"""Writes the Parquet files of one attempt in one bucket of a Paimon table: batches are collected to row groups and written in order.

Memory is bounded by one row group. A file ends at its target size; none is visible in the lake before a commit names it. Only encodings
that Paimon's Java reader supports are used (`VectorizedColumnReader`): no BYTE_STREAM_SPLIT.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tiering.lake.outside_errors import misfit
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.storage.base import Storage
from tiering.lake.paimon.storage.local import LOCAL
from tiering.lake.paimon.writing.payload import WrittenFile
from tiering.lake.proof.file_footer import FileFooter, encode_footer
from tiering.lake.writing.encodings import Encodings, choose_encodings
from tiering.lake.writing.provenance import Provenance
from tiering.lake.writing.statistics import FloatsWithoutStatistics, columns_with_statistics
from tiering.model.tables import OFFSET_COLUMN, TablePath

ROW_GROUP_ROWS = 1 << 20
ROW_GROUP_BYTES = 64 << 20
"""Maximum size of Arrow data that is held in memory before it is written."""
PAGE_BYTES = 1 << 20
DICTIONARY_BYTES = 2 << 20
TARGET_FILE_BYTES = 256 << 20
"""Paimon's default of `target-file-size` for tables without a primary key."""
_BOUNDED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


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

    def discard(self, paths: Iterable[PurePath]) -> None:
        """Deletes files. Never raises: files that cannot be deleted are left to the sweep."""
        for path in paths:
            with suppress(Exception):
                self.storage.delete(path)


class ParquetFiles:
    """Writes rows to files in the given order. The offsets of the rows are their sequence numbers."""

    def __init__(
        self, place: FilePlace, schema: pa.Schema, provenance: Provenance | None = None, target_bytes: int = TARGET_FILE_BYTES
    ) -> None:
        self._place = place
        self._target_bytes = target_bytes
        self.schema = schema
        self.provenance = provenance
        """Set for a table with a clean layout: collects the offsets of the rows, and the content of the file footers."""
        self.rows = 0
        """Number of rows added so far."""
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        self._with_nan = FloatsWithoutStatistics()
        self._open: OpenFile | None = None
        self._started: list[PurePath] = []
        self._done: list[WrittenFile] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds rows of `schema`. Raises InvalidData, LakeUnavailable."""
        remaining = rows
        self.rows += rows.num_rows
        while remaining.num_rows:
            part = remaining.slice(0, ROW_GROUP_ROWS - self._rows)
            remaining = remaining.slice(part.num_rows)
            self._batches.append(part)
            self._rows += part.num_rows
            self._bytes += part.nbytes
            if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
                self._write_row_group()

    def close(self) -> tuple[WrittenFile, ...]:
        """Finishes all files, which are durable afterwards. Raises InvalidData, LakeUnavailable."""
        self._write_row_group()
        self._close_file()
        if self._done:
            with lake_errors(f"write a data file of {self._place.table}", table_path=self._place.table):
                self._place.sync()
        return tuple(self._done)

    def abort(self) -> None:
        """Deletes the files written so far. Never raises."""
        self._batches.clear()
        if self._open is not None:
            with suppress(Exception):
                self._open.end()
            self._open = None
        self._place.discard(self._started)
        self._started.clear()
        self._done.clear()

    def _write_row_group(self) -> None:
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches, schema=self.schema)
        self._batches, self._rows, self._bytes = [], 0, 0
        with lake_errors(f"write a data file of {self._place.table}", table_path=self._place.table):
            if self._with_nan.adds(table):
                self._close_file()
            if self._open is None:
                self._open = self._open_file(table)
            try:
                self._open.writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
                if self.provenance is not None:
                    self.provenance.add_rows(table)
            except pa.ArrowInvalid as error:
                path = self._place.table
                raise misfit(f"rows of {path} do not fit its lake table", error, table_path=path) from error
            self._open.look_at(table)
            if self._open.stream.tell() >= self._target_bytes:
                self._close_file()

    def _open_file(self, first_rows: pa.Table) -> OpenFile:
        path = self._place.begin_file(f"{self._place.prefix}-{len(self._started):05d}.parquet")
        self._started.append(path)
        return open_file(self._place.storage, path, first_rows, self._with_nan.names)

    def _close_file(self) -> None:
        if self._open is None:
            return
        with lake_errors(f"write a data file of {self._place.table}", table_path=self._place.table):
            file, self._open = self._open, None
            footer = None if self.provenance is None else self.provenance.end_file()
            size = file.end(footer)
            low, high = file.bounds[OFFSET_COLUMN][:2] if footer is None else (footer.runs[0][0], footer.runs[-1][1] - 1)
            self._done.append(
                WrittenFile(self._place.folder, file.path.name, size, file.records, cast(int, low), cast(int, high), dict(file.bounds))
            )


def java_encodings(first_rows: pa.Table) -> Encodings:
    """Returns the encodings of `choose_encodings` that Paimon's Java reader supports; all other columns are plain."""
    encodings = choose_encodings(first_rows)
    return Encodings(encodings.dictionary, {name: kind for name, kind in encodings.encoding.items() if kind != "BYTE_STREAM_SPLIT"})


def open_file(storage: Storage, path: PurePath, first_rows: pa.Table, without_statistics: frozenset[str]) -> OpenFile:
    """Begins a file with the columns of `first_rows`, and encodings that suit these rows. Float columns in `without_statistics` get no
    statistics. Raises OSError.
    """
    encodings, schema = java_encodings(first_rows), first_rows.schema
    stream = storage.create_file(path)
    try:
        writer = pq.ParquetWriter(
            stream,
            schema,
            compression="zstd",
            use_dictionary=cast(Any, encodings.dictionary),
            column_encoding=encodings.encoding or None,
            data_page_size=PAGE_BYTES,
            dictionary_pagesize_limit=DICTIONARY_BYTES,
            write_statistics=columns_with_statistics(schema, without_statistics),
            store_schema=False,
            store_decimal_as_integer=True,
        )
    except BaseException:
        stream.close()
        raise
    return OpenFile(storage, path, stream, writer)


class OpenFile:
    """A file that is being written, and the values of its later manifest entry."""

    def __init__(self, storage: Storage, path: PurePath, stream: Any, writer: pq.ParquetWriter) -> None:
        self._storage = storage
        self.path = path
        self.stream = stream
        self.writer = writer
        self.records = 0
        self.bounds: dict[str, tuple[int | None, int | None, int]] = {}

    def look_at(self, table: pa.Table) -> None:
        """Counts rows, and extends the bounds of integer columns."""
        self.records += table.num_rows
        for name, column in zip(table.column_names, table.columns, strict=True):
            if column.type not in _BOUNDED:
                continue
            extremes: Any = pc.min_max(column)
            low, high, nulls = self.bounds.get(name, (None, None, 0))
            lows = [value for value in (low, extremes["min"].as_py()) if value is not None]
            highs = [value for value in (high, extremes["max"].as_py()) if value is not None]
            self.bounds[name] = (min(lows, default=None), max(highs, default=None), nulls + column.null_count)

    def end(self, footer: FileFooter | None = None) -> int:
        """Finishes the file, with its footer; returns its size in bytes."""
        try:
            if footer is not None:
                self.writer.add_key_value_metadata(cast(Any, encode_footer(footer)))
            self.writer.close()
            self._storage.sync_file(self.stream)
            size: int = self.stream.tell()
            return size
        finally:
            self.stream.close()
