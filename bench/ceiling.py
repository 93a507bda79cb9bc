"""The ceiling of a round: pyarrow reads the same segments and writes the same Parquet, in as many processes, and nothing else.

The same Parquet: the same columns (with the three system columns), codec, encodings and row groups. Nothing is verified,
described, named for a lake or committed.
"""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tiering.lake.iceberg.writing.encodings import choose_encodings
from tiering.lake.iceberg.writing.writer import ROW_GROUP_ROWS


@dataclass(frozen=True)
class BucketJob:
    """Segment files of one bucket, in order, and the Parquet file to write."""

    bucket_id: int
    segments: tuple[str, ...]
    target: str


def copy_bucket(job: BucketJob) -> int:
    """Reads and writes one bucket; returns its rows."""
    done, gathered, writer = 0, [], None
    for index, path in enumerate(job.segments):
        with pa.memory_map(path) as source:
            gathered.append(pa.ipc.open_file(source).read_all())
        rows = sum(table.num_rows for table in gathered)
        if rows < ROW_GROUP_ROWS and index + 1 < len(job.segments):
            continue
        table = _with_system_columns(pa.concat_tables(gathered), job.bucket_id, done)
        if writer is None:
            encodings = choose_encodings(table)
            writer = pq.ParquetWriter(
                job.target,
                table.schema,
                compression="zstd",
                use_dictionary=encodings.dictionary,  # type: ignore[arg-type]
                column_encoding=encodings.encoding,
            )
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        done, gathered = done + rows, []
    if writer is not None:
        writer.close()
    return done


def _with_system_columns(table: pa.Table, bucket_id: int, start: int) -> pa.Table:
    count = table.num_rows
    table = table.append_column("__bucket", pa.array(np.full(count, bucket_id, dtype=np.int32)))
    table = table.append_column("__offset", pa.array(np.arange(start, start + count, dtype=np.int64)))
    return table.append_column("__timestamp", pa.array(np.zeros(count, dtype=np.int64)).cast(pa.timestamp("us", tz="UTC")))


def measure(jobs: list[BucketJob], processes: int) -> tuple[float, int]:
    """Seconds for all jobs in `processes` warm processes, and their rows."""
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.map(_warm, range(processes))
        start = time.perf_counter()
        rows = sum(pool.imap_unordered(copy_bucket, jobs))
        return time.perf_counter() - start, rows


def _warm(_: int) -> None:
    pa.array([1])
