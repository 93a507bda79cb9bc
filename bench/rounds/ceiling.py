"""The ceiling of a round: pyarrow reads the same segments and writes the same Parquet, in as many processes, and nothing else.

The same Parquet: the same columns (with the three system columns, if the layout has them), codec, encodings and row groups. Nothing is
verified, described, named for a lake or committed.
"""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tiering.lake.layouts import Layout
from tiering.lake.paimon.writing.parquet_files import java_encodings
from tiering.lake.writing.encodings import choose_encodings
from tiering.lake.writing.parquet_stream import ROW_GROUP_ROWS


@dataclass(frozen=True)
class ParquetStyle:
    """How the lake format and the layout of its table have files written."""

    lake_format: str = "iceberg"
    layout: Layout = Layout.SYSTEM_COLUMNS

    @property
    def time_unit(self) -> str:
        """Time unit of the column `__timestamp`."""
        return "ms" if self.lake_format == "paimon" else "us"


@dataclass(frozen=True)
class BucketJob:
    """Segment files of one bucket, in order, and the Parquet file to write."""

    bucket_id: int
    segments: tuple[str, ...]
    target: str
    style: ParquetStyle = ParquetStyle()


def copy_bucket(job: BucketJob) -> int:
    """Reads and writes one bucket; returns its rows."""
    target = BucketFile(job.bucket_id, job.target, job.style)
    for path in job.segments:
        with pa.memory_map(path) as source:
            target.add(pa.ipc.open_file(source).read_all())
    return target.close()


class BucketFile:
    """The Parquet file of one bucket, written a row group at a time."""

    def __init__(self, bucket_id: int, path: str, style: ParquetStyle = ParquetStyle()) -> None:
        self._bucket_id = bucket_id
        self._path = path
        self._style = style
        self._done = 0
        self._gathered: list[pa.Table] = []
        self._writer: pq.ParquetWriter | None = None

    def add(self, rows: pa.Table) -> None:
        self._gathered.append(rows)
        if sum(table.num_rows for table in self._gathered) >= ROW_GROUP_ROWS:
            self._write()

    def close(self) -> int:
        """How many rows it has."""
        if self._gathered:
            self._write()
        if self._writer is not None:
            self._writer.close()
        return self._done

    def _write(self) -> None:
        table = pa.concat_tables(self._gathered)
        if self._style.layout.has_row_offsets:
            table = _with_system_columns(table, self._bucket_id, self._done, self._style.time_unit)
        if self._writer is None:
            is_paimon = self._style.lake_format == "paimon"
            encodings = java_encodings(table) if is_paimon else choose_encodings(table)
            self._writer = pq.ParquetWriter(
                self._path,
                table.schema,
                compression="zstd",
                use_dictionary=encodings.dictionary,  # type: ignore[arg-type]
                column_encoding=encodings.encoding,
                store_decimal_as_integer=is_paimon,
            )
        self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._done, self._gathered = self._done + table.num_rows, []


def _with_system_columns(table: pa.Table, bucket_id: int, start: int, time_unit: str) -> pa.Table:
    count = table.num_rows
    table = table.append_column("__bucket", pa.array(np.full(count, bucket_id, dtype=np.int32)))
    table = table.append_column("__offset", pa.array(np.arange(start, start + count, dtype=np.int64)))
    return table.append_column("__timestamp", pa.array(np.zeros(count, dtype=np.int64)).cast(pa.timestamp(time_unit, tz="UTC")))


def measure(jobs: list[BucketJob], processes: int) -> tuple[float, int]:
    """Seconds for all jobs in `processes` warm processes, and their rows."""
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.map(_warm, range(processes))
        start = time.perf_counter()
        rows = sum(pool.imap_unordered(copy_bucket, jobs))
        return time.perf_counter() - start, rows


def _warm(_: int) -> None:
    pa.array([1])
