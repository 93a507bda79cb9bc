"""Reads Parquet files of a lake table, of any writer, and the footers of a clean table's files.

Errors name the location of a changed or missing file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat

from tiering.errors import DataCorrupt, LakeUnavailable
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.outside_errors import DAMAGED_HINT, damaged_file, is_damage
from tiering.lake.proof.file_footer import FileFooter, decode_footer, sum_of
from tiering.lake.proof.row_checksum import row_checksum
from tiering.lake.schema.column_ids import ColumnIds, proof_columns
from tiering.lake.schema.stored_columns import stored_columns

THREADS = 16
REMEMBERED_FILES = 200_000
"""Upper bound of the remembered files, about 300 bytes each."""


class LakeParquet(pq.ParquetFile):
    """A Parquet file of a lake table. A read error names the file, even if a library deep below reads the rows.

    Raises DataCorrupt for bytes that are not Parquet, and LakeUnavailable for errors of the storage.
    """

    def __init__(self, stream: Any, location: str, **options: Any) -> None:
        self._location = location
        with _read_errors(location):
            super().__init__(stream, **options)

    def iter_batches(self, *arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        """Yields batches like pq.ParquetFile, with the errors of this class."""
        with _read_errors(self._location):
            batches = super().iter_batches(*arguments, **options)
        while True:
            with _read_errors(self._location):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


@contextmanager
def open_lake_file(io: FileIO, location: str) -> Iterator[Any]:
    """Opens the file as a stream. Raises LakeUnavailable."""
    with _read_errors(location):
        stream = io.new_input(location).open()
    with stream:
        yield stream


@contextmanager
def _read_errors(location: str) -> Iterator[None]:
    """Raises DataCorrupt for damaged bytes (`is_damage`), and LakeUnavailable for errors of the storage."""
    try:
        with lake_errors(f"read {location}", lake_file=location):
            yield
    except LakeUnavailable as unavailable:
        cause = unavailable.__cause__
        if cause is None or not is_damage(cause):
            raise
        raise damaged_file(location, cause) from cause


def check_readable(io: FileIO, location: str, columns: list[str]) -> None:
    """Reads `columns` of a file without keeping them. Raises DataCorrupt, LakeUnavailable."""
    with open_lake_file(io, location) as stream:
        for _ in LakeParquet(stream, location).iter_batches(columns=columns, use_threads=False):
            pass


def read_footer(io: FileIO, file: DataFile) -> FileFooter | None:
    """Returns a file's footer; None if it has none or a wrong one, because another writer made the file."""
    if file.file_format is not FileFormat.PARQUET:
        return None
    with open_lake_file(io, file.file_path) as stream:
        footer = footer_of(LakeParquet(stream, file.file_path), file.file_path)
    return footer if footer is not None and footer.rows == file.record_count else None


def footer_of(parquet: LakeParquet, location: str) -> FileFooter | None:
    """Returns the footer of an open file; None as for `read_footer`."""
    metadata = parquet.metadata.metadata or {}
    try:
        footer = decode_footer({key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata.items()})
    except ValueError:
        return None
    return footer if footer is not None and f"lakeward-{footer.round_id}-" in location else None


class FileCheck:
    """Compares the rows of a file of a clean table with the checksum in its footer. It gets all rows, as the file has them."""

    def __init__(self, parquet: LakeParquet, footer: FileFooter, location: str, recorded: ColumnIds | None) -> None:
        self._names = proof_columns(stored_columns(parquet.schema_arrow), recorded)
        self._footer = footer
        self._location = location
        self._checksum = 0

    def checksum_of(self, rows: pa.RecordBatch) -> int:
        """Returns what these rows add to the checksum of a file."""
        return row_checksum(rows, self._names)

    def add(self, rows: pa.RecordBatch) -> None:
        """Takes the next rows."""
        self._checksum = sum_of((self._checksum, self.checksum_of(rows)))

    @property
    def is_intact(self) -> bool:
        """Whether the rows have the checksum."""
        return self._checksum == self._footer.checksum

    def end(self) -> None:
        """Raises DataCorrupt if the rows do not have the checksum."""
        if not self.is_intact:
            raise DataCorrupt(
                f"the rows of {self._location} do not have the checksum of its footer", hint=DAMAGED_HINT, lake_file=self._location
            )


class FileBuckets:
    """Tells by a file's footer the bucket of its rows, or of the rows that a position-delete file names. None = any bucket.

    Files are remembered by location and size. A name of Lakeward's has a random nonce and is never used for other rows. Safe to use from
    several threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._buckets: dict[tuple[str, str, int], int | None] = {}

    def of(self, io: FileIO, lake_table_uuid: str, files: Sequence[DataFile]) -> dict[str, int | None]:
        """Returns the bucket of each file by location. Opens the files that are not remembered, and raises the errors of opening them."""
        names = {file.file_path: (lake_table_uuid, file.file_path, file.file_size_in_bytes) for file in files}
        with self._lock:
            buckets = {path: self._buckets[name] for path, name in names.items() if name in self._buckets}
        unknown = [file for file in files if file.file_path not in buckets]
        with ThreadPoolExecutor(min(THREADS, len(unknown) or 1)) as pool:
            for file, footer in zip(unknown, pool.map(lambda file: read_footer(io, file), unknown), strict=True):
                is_ours = footer is not None and footer.lake_table_uuid == lake_table_uuid
                buckets[file.file_path] = footer.bucket.bucket_id if footer is not None and is_ours else None
        with self._lock:
            for file in unknown:
                self._buckets[names[file.file_path]] = buckets[file.file_path]
            while len(self._buckets) > REMEMBERED_FILES:
                del self._buckets[next(iter(self._buckets))]
        return buckets
