"""Writes one split's rows of a log table as data files of a Paimon table, on executors."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tiering.lake.base import WriteResult, WriterInitContext
from tiering.lake.paimon.writing.parquet_files import ParquetFiles
from tiering.lake.paimon.writing.payload import FilesPayload, encode_files
from tiering.lake.paimon.writing.rows import paimon_records
from tiering.lake.writing.fitting import watched_schema
from tiering.lake.writing.row_guard import RowGuard
from tiering.model.tables import OFFSET_COLUMN


@dataclass(frozen=True)
class WriterTarget:
    """The table, schema, partition and bucket for which the files of a split are written (`FilesPayload`)."""

    lake_table_uuid: str
    schema_id: int
    partition: tuple[str, ...]
    bucket: int
    total_buckets: int


class PaimonLogWriter:
    """Implements `LakeWriter` for log tables."""

    def __init__(self, context: WriterInitContext, target: WriterTarget, files: ParquetFiles, guard: RowGuard) -> None:
        self._context = context
        self._target = target
        self._files = files
        self._guard = guard
        self._watched = watched_schema(files.schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes a batch in the table's lake schema. Raises BucketStopped, InvalidData, DataCorrupt, LakeUnavailable."""
        if batch.num_rows == 0:
            return
        rows = paimon_records(batch, self._watched, self._context)
        self._guard.check(rows)
        if self._files.provenance is not None:
            self._files.provenance.take_offsets(rows.column(OFFSET_COLUMN).to_numpy())
        self._files.add(rows.select(self._files.schema.names))

    def complete(self, starting_offset: int, reached_offset: int) -> WriteResult:
        """Closes all files. Raises DataCorrupt if a row is outside of the range, InvalidData, LakeUnavailable."""
        self._guard.check_range(starting_offset, reached_offset)
        files, target, provenance = self._files.close(), self._target, self._files.provenance
        payload = FilesPayload(target.lake_table_uuid, target.schema_id, target.partition, target.bucket, target.total_buckets, files)
        return WriteResult(
            bucket=self._context.bucket,
            starting_offset=starting_offset,
            reached_offset=reached_offset,
            records=sum(file.records for file in files),
            files=len(files),
            size_bytes=sum(file.size_bytes for file in files),
            payload=encode_files(payload),
            checksum=None if provenance is None else provenance.checksum,
            empty=() if provenance is None else provenance.without_rows(starting_offset, reached_offset),
        )

    def abort(self) -> None:
        """Deletes the files written so far. Never raises: files that cannot be deleted are left to the sweep."""
        self._files.abort()
