"""Reads Parquet files of a lake table, of any writer. Errors name the location of a changed or missing file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from tiering.errors import LakeUnavailable
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.outside_errors import damaged_file, is_damage


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
