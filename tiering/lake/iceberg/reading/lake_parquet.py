"""Parquet files of a lake table, whoever wrote them: a file that was changed since, or is gone, is named by its location."""

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
    """A Parquet file of a lake table. What it cannot read is said of the file, whoever reads on: a rows' reader may be deep in a library.

    Raises DataCorrupt over bytes that are no Parquet, LakeUnavailable for what the storage says.
    """

    def __init__(self, stream: Any, location: str, **options: Any) -> None:
        self._location = location
        with _read_errors(location):
            super().__init__(stream, **options)

    def iter_batches(self, *arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        """As pq.ParquetFile."""
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
    """The file as a stream. Raises LakeUnavailable."""
    with _read_errors(location):
        stream = io.new_input(location).open()
    with stream:
        yield stream


@contextmanager
def _read_errors(location: str) -> Iterator[None]:
    """As `is_damage` tells them apart."""
    try:
        with lake_errors(f"read {location}", lake_file=location):
            yield
    except LakeUnavailable as unavailable:
        cause = unavailable.__cause__
        if cause is None or not is_damage(cause):
            raise
        raise damaged_file(location, cause) from cause


def check_readable(io: FileIO, location: str, columns: list[str]) -> None:
    """Reads `columns` of a file, and drops them. Raises DataCorrupt, LakeUnavailable."""
    with open_lake_file(io, location) as stream:
        for _ in LakeParquet(stream, location).iter_batches(columns=columns, use_threads=False):
            pass
