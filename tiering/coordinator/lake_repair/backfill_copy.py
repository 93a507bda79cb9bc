"""Copies the rows of a lake table into new files of another lake table, which no snapshot names yet. Memory is bounded by the open files.

The rows are read one file at a time, in the types of the target's source table, and counted and summed before they are placed. Then they go
to the writers of rounds: a file has the rows of one partition and bucket.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.cluster.capabilities import KeyBuckets
from tiering.cluster.partition_names import rows_by_bucket
from tiering.coordinator.lake_repair.backfill_condition import RowSelection
from tiering.errors import InvalidArgument, RoundFailed
from tiering.lake.base import Committable, LakeTieringFactory, LakeView, LakeWriter, WriteResult, WriterInitContext
from tiering.lake.file_lists import RowScan
from tiering.lake.proof.backfilled_rows import BackfilledBucket
from tiering.lake.proof.change_sums import RowSum
from tiering.lake.proof.row_checksum import row_checksum
from tiering.lake.writing.fitting import fit
from tiering.model.schema.field_ids import without_metadata
from tiering.model.tables import SYSTEM_COLUMN_FIELDS, BucketKey, TableInfo

OPEN_FILES = 8
"""Upper bound of files that are written at once. Each has up to 64 MiB of rows in memory."""
BATCH_ROWS = 1 << 16

Place = tuple[str, int]
"""The partition's name ("" without partitions), and the bucket."""


@dataclass
class _OpenFile:
    writer: LakeWriter
    rows: int = 0


@dataclass(frozen=True)
class CopiedRows:
    """The written files, and the rows in them by place. `sums` are those of the rows as they were read."""

    results: tuple[WriteResult, ...]
    buckets: tuple[BackfilledBucket, ...]
    sums: RowSum


def source_batches(lake: RowScan, table: TableInfo, source: LakeView, selection: RowSelection) -> Iterator[pa.RecordBatch]:
    """Yields the selected rows at the head of `source` with the columns of `table`.

    Raises LakeUnavailable, DataCorrupt, SchemaDrift (a file that cannot be read, or a value of another type), InvalidData,
    InvalidArgument.
    """
    assert source.head is not None
    columns = without_metadata(table.schema)
    like_source = replace(table, path=source.path, schema=columns, partition_keys=(), bucket_keys=())
    for reader in lake.row_readers(like_source, source, source.head):
        for batch in reader.read(columns.names):
            for first in range(0, batch.num_rows, BATCH_ROWS):
                if (rows := selection.selected(fit(batch.slice(first, BATCH_ROWS), table.schema))).num_rows:
                    yield rows


def summed(batches: Iterator[pa.RecordBatch], names: pa.Schema | None) -> RowSum:
    """Returns the sum of all rows. `names` as in `row_checksum`."""
    return sum((RowSum(batch.num_rows, row_checksum(batch, names)) for batch in batches), RowSum())


class RowCopier:
    """Writes the files of one backfill."""

    def __init__(
        self, table: TableInfo, cluster: object, factory: LakeTieringFactory, table_uuid: str, round_id: str, new_nonce: Callable[[], str]
    ) -> None:
        self._table = table
        self._cluster = cluster
        self._factory = factory
        self._table_uuid = table_uuid
        self._round_id = round_id
        self._new_nonce = new_nonce
        self._open: dict[Place, _OpenFile] = {}
        """The least recently used one comes first."""
        self._results: list[tuple[str, WriteResult]] = []

    def copy(self, batches: Iterator[pa.RecordBatch], names: pa.Schema | None) -> CopiedRows:
        """Writes the rows. After an error no file is left.

        Raises InvalidData, LakeUnavailable, LakeTableReplaced, and errors of `batches`.
        """
        sums = RowSum()
        try:
            for batch in batches:
                sums += RowSum(batch.num_rows, row_checksum(batch, names))
                for part in rows_by_bucket(self._table, batch, _buckets(self._table, self._cluster, batch)):
                    self._write((part.partition_name or "", part.bucket_id), part.rows)
            while self._open:
                self._close(next(iter(self._open)))
            return self._copied(sums)
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Deletes all files of the backfill. Call it only before a commit was sent. Never raises."""
        for file in self._open.values():
            file.writer.abort()
        self._open.clear()
        self._factory.create_committer().abort(Committable(self._round_id, tuple(result for _, result in self._results)))

    def _copied(self, sums: RowSum) -> CopiedRows:
        """Returns the files. Raises RoundFailed if their rows are not those that were read."""
        by_place: defaultdict[Place, RowSum] = defaultdict(RowSum)
        for partition_name, result in self._results:
            by_place[partition_name, result.bucket.bucket_id] += RowSum(result.records, result.checksum or 0)
        buckets = tuple(BackfilledBucket(*place, by_place[place]) for place in sorted(by_place))
        written = sum(by_place.values(), RowSum())
        if written != sums:
            raise RoundFailed(
                f"the files of the backfill have {written} rows; the source has {sums}",
                cause_class="InconsistentRound",
                hint="Nothing was committed. This is a defect of Lakeward: please report it.",
                table_path=self._table.path,
            )
        return CopiedRows(tuple(result for _, result in self._results), buckets, sums)

    def _write(self, place: Place, rows: pa.RecordBatch) -> None:
        file = self._open.pop(place, None)
        if file is None:
            if len(self._open) >= OPEN_FILES:
                self._close(next(iter(self._open)))
            file = _OpenFile(self._new_writer(place))
        self._open[place] = file
        # Writers number the rows of a file by offsets. The footer of a backfilled file does not have them.
        count, start, (_, _, times) = rows.num_rows, file.rows, SYSTEM_COLUMN_FIELDS
        buckets, offsets = pa.array(np.full(count, place[1], np.int32)), pa.array(np.arange(start, start + count))
        columns = [*rows.columns, buckets, offsets, pa.repeat(pa.scalar(0, times.type), count)]
        file.writer.write(pa.RecordBatch.from_arrays(columns, schema=self._table.lake_schema()))
        file.rows += count

    def _new_writer(self, place: Place) -> LakeWriter:
        partition_name = place[0] if self._table.partition_keys else None
        bucket = BucketKey(None, place[1])  # a partition that only the lake has has no id
        nonce = self._new_nonce()
        context = WriterInitContext(self._table, self._table_uuid, bucket, partition_name, self._round_id, nonce, is_backfill=True)
        return self._factory.create_writer(context)

    def _close(self, place: Place) -> None:
        file = self._open[place]
        self._results.append((place[0], file.writer.complete(0, file.rows)))
        del self._open[place]


def _buckets(table: TableInfo, cluster: object, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Returns the bucket of each row: 0 in a table without bucket keys, where a row may be in any bucket."""
    if not table.bucket_keys or table.bucket_count == 1:
        return np.zeros(batch.num_rows, np.int64)
    ids = cluster.key_buckets(table, batch.select(list(table.bucket_keys))) if isinstance(cluster, KeyBuckets) else None
    if ids is None:
        raise InvalidArgument(f"the buckets of rows of {table.path} are chosen by a formula that this version does not know")
    return np.asarray(ids, np.int64)
