"""Parquet files of a lake table, whoever wrote them: a file that was changed since, or is gone, is named by its location."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from tiering.errors import DataCorrupt, LakeUnavailable
from tiering.lake.iceberg.errors import lake_errors
from tiering.lake.outside_errors import describe

DAMAGED_HINT = "The file was changed after it was committed. Restore it from a backup of the warehouse."


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
    """Arrow's errors over bytes have no number, those of the storage have one."""
    try:
        with lake_errors(f"read {location}", lake_file=location):
            yield
    except LakeUnavailable as unavailable:
        cause = unavailable.__cause__
        if isinstance(cause, pa.ArrowMemoryError) or not isinstance(cause, pa.ArrowException | OSError) or getattr(cause, "errno", None):
            raise
        raise DataCorrupt(f"{location} is damaged: {describe(cause)}", hint=DAMAGED_HINT, lake_file=location) from cause
