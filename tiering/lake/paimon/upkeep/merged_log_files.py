"""Rewrites data files of log tables: the rows of several files of one bucket are written to fewer files, in offset order.

Also runs on executors. In a clean table the footer of a new file has the offsets of all its rows, and their checksum has to be the sum of
the checksums in the old footers.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa

from tiering import crash_points
from tiering.errors import Cancelled, DataCorrupt
from tiering.lake.base import FileRewrite, WriterInitContext
from tiering.lake.maintenance import RewriteTask
from tiering.lake.outside_errors import DAMAGED_HINT
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.data_files import known_footer, open_data_file
from tiering.lake.paimon.schema.partitions import bucket_folder
from tiering.lake.paimon.table_state import TableState
from tiering.lake.paimon.writing.parquet_files import FilePlace, ParquetFiles, paimon_rows
from tiering.lake.paimon.writing.payload import FilesPayload, WrittenFile, encode_files
from tiering.lake.proof.file_footer import FileFooter, Run, sum_of
from tiering.lake.writing.provenance import Provenance, file_prefix
from tiering.model.tables import BucketKey, TableInfo

_BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class DataFile:
    """A live data file of one source bucket. `first` and `last` are the lowest and the highest sequence number of its rows; in a log table
    these are the offsets of the first and the last row.
    """

    path: str
    """Path below the table's folder."""
    size_bytes: int
    rows: int
    first: int
    last: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class LogRewrite:
    """The payload of a `RewriteTask`: files of one bucket in offset order, to be rewritten to one sequence of new files."""

    table: TableInfo
    table_uuid: str
    partition: tuple[str, ...]
    paimon_bucket: int
    files: tuple[DataFile, ...]


def rewrite_log_files(state: TableState, task: RewriteTask, round_id: str, nonce: str, is_stopped: Callable[[int], bool]) -> FileRewrite:
    """Rewrites the files of a log table. Implements `FileRewriter.rewrite`."""
    work: LogRewrite = pickle.loads(task.payload)
    context = WriterInitContext(work.table, work.table_uuid, task.bucket, task.partition_name, round_id, nonce)
    folder = bucket_folder(state.partition_keys, work.partition, work.paimon_bucket)
    place = FilePlace(work.table.path, state.root, folder, file_prefix(context), state.storage)
    files = ParquetFiles(place, state.columns, None if state.layout.has_row_offsets else Provenance(context), state.target_bytes)
    try:
        with lake_errors(f"rewrite files of {work.table.path}", table_path=work.table.path):
            checksums = [_copy(state, task.bucket, work, file, files, is_stopped) for file in work.files]
        written = files.close()
        _check(work, files, written, checksums)
    except BaseException:
        files.abort()
        raise
    removed = tuple(file.name for file in work.files)
    payload = FilesPayload(
        work.table_uuid,
        state.schema_id,
        work.partition,
        work.paimon_bucket,
        state.total_buckets,
        written,
        removed=removed,
        is_compacted=True,
    )
    size_bytes = sum(file.size_bytes for file in written)
    return FileRewrite(task.bucket, encode_files(payload), task.files, len(written), task.size_bytes, size_bytes)


def footer_of(state: TableState, table: TableInfo, key: BucketKey, table_uuid: str, file: DataFile) -> FileFooter | None:
    """Returns the footer of a file of a clean table; None unless a round of this table wrote the file for this bucket."""
    footer = known_footer(state.storage, state.root / file.path, file.rows)
    if footer is None or not footer.runs or (footer.table_id, footer.bucket) != (table.table_id, key):
        return None
    return footer if footer.lake_table_uuid == table_uuid else None


def in_all_columns(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Returns `rows` in `columns`, with nulls in the columns that were added after their file was written."""
    for column in columns:
        if column.name not in rows.schema.names:
            rows = rows.append_column(column, pa.nulls(rows.num_rows, column.type))
    return paimon_rows(rows, columns)


def _copy(
    state: TableState, key: BucketKey, work: LogRewrite, file: DataFile, files: ParquetFiles, is_stopped: Callable[[int], bool]
) -> int:
    """Adds the rows of a file to the new files; returns the checksum in its footer, 0 without a footer."""
    checksum = 0
    if files.provenance is not None:
        footer = footer_of(state, work.table, key, work.table_uuid, file)
        if footer is None:
            raise _corrupt(work, state.root / file.path)
        files.provenance.take_offsets(_offsets(footer.runs))
        checksum = footer.checksum
    with open_data_file(state.storage, state.root / file.path) as parquet:
        for batch in parquet.iter_batches(_BATCH_ROWS, use_threads=False):
            if is_stopped(files.rows + batch.num_rows):
                raise Cancelled("the rewriting of files was stopped")
            files.add(in_all_columns(batch, state.columns))
    crash_points.reach(crash_points.MERGING)
    return checksum


def _offsets(runs: Sequence[Run]) -> Any:
    return np.concatenate([np.arange(start, stop) for start, stop in runs])


def _check(work: LogRewrite, files: ParquetFiles, written: Sequence[WrittenFile], checksums: Sequence[int]) -> None:
    """Raises DataCorrupt unless the new files have the number of rows, the offsets and the checksum of the old ones."""
    same_rows = sum(file.rows for file in work.files) == sum(file.records for file in written)
    same_offsets = bool(written) and (written[0].min_sequence, written[-1].max_sequence) == (work.files[0].first, work.files[-1].last)
    same_sum = files.provenance is None or files.provenance.checksum == sum_of(checksums)
    if not (same_rows and same_offsets and same_sum):
        raise _corrupt(work, PurePath(work.files[0].path))


def _corrupt(work: LogRewrite, path: PurePath) -> DataCorrupt:
    return DataCorrupt(
        f"{len(work.files)} files of {work.table.path} were read to merge them, but their rows do not match their footers or "
        f"manifests; the first file is {path}",
        hint=DAMAGED_HINT,
        table_path=work.table.path,
        lake_file=str(path),
    )
