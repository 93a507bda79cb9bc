"""The batches of a stream of a table: reads lake and log to find where the next batch ends, and returns the readers of one batch.

A reader of the lake part reads what `plan_scan` returns for it: a file of a log table. Their order and number at one snapshot never change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from tiering.cluster.base import SplitSource
from tiering.cluster.capabilities import FormerColumns
from tiering.cluster.skipping import MarkedRecords
from tiering.errors import InvalidArgument, LakeUnavailable, SourceChanged
from tiering.model.names import CHANGELOG_SUFFIX, sql_name
from tiering.model.reading.scans import ReadMoment, ReadScan
from tiering.model.tables import (
    CHANGE_TYPE_COLUMN,
    BucketKey,
    BucketOffsets,
    ChangeType,
    TableInfo,
    TablePath,
    TableType,
    bucket_keys_of,
)
from tiering.planning.check_log import check_reachable
from tiering.union_read.plan import (
    NO_LAKE,
    UNSIZED_RECORD_BYTES,
    CheckedBase,
    LakeOpener,
    LogPart,
    lake_disabled,
    mark_of,
    offsets_only_in_lake,
    plan_again_if_stale,
    plan_scan,
)
from tiering.union_read.readers import LogRows, RowReader
from tiering.union_read.streams.offsets import RESTART_HINT, LakePart, StreamOffset
from tiering.union_read.streams.planning import (
    EARLIEST,
    BatchLimit,
    Log,
    batch_between,
    begin_at,
    check_continues,
    check_same_columns,
    check_same_table,
    next_offset,
)


@runtime_checkable
class StoredRecords(Protocol):
    """A `RowReader` that knows how many records it reads. Those that deletes or later records replace count, too."""

    @property
    def records(self) -> int:
        """The number of records."""


@dataclass(frozen=True)
class StreamOptions:
    """The table and the rows that a stream reads, by the options of its user."""

    path: TablePath
    starting_offsets: str = EARLIEST
    changelog: bool = False
    fail_on_data_loss: bool = False
    """A dropped partition is an error. A log that was cut is always one. If False, records of a dropped partition that were not read are
    left out, also those of a batch that is planned. Whether a partition was dropped is known only from lists of the cluster. An embedded
    cluster's list is exact. Fluss's coordinator reads its list from ZooKeeper, where its session never goes back. A coordinator that was
    replaced, but still answers, can return an older list. So two lists must agree, and `vanished` of the next offset continues a
    partition that returns. Only records of a batch that is planned from two old lists are lost, and only if this is False."""
    ignore_deletes: bool = False
    """Rows of a primary-key table whose key was deleted are left out. Otherwise a deletion is an error."""


@dataclass(frozen=True)
class StreamedTable:
    """The parts from which batches are planned. `marked` has the records that the lake lacks below its ends."""

    cluster: SplitSource
    open_lake: LakeOpener
    checked_base: CheckedBase
    marked: MarkedRecords | None = None

    @plan_again_if_stale
    def next_batch(self, options: StreamOptions, start: StreamOffset | None, limit: BatchLimit) -> StreamOffset:
        """Returns where the batch ends that begins at `start`, or at the beginning of the stream if `start` is None.

        Raises UnknownTable, the errors of `checked_base`, of `begin_at` and of `check_continues`, LakeUnavailable, SourceChanged, and
        LakeDisabled (the first rows are only in the lake copy).
        """
        table = self.cluster.table(options.path)
        begin = start or (None if limit.last is None else limit.last.begin) or self._beginning(table, options)
        check_same_table(table, begin)
        files = [_records(reader) for reader in self._lake_readers(table, begin.lake, ReadScan())]
        log = self._log(table, begin)
        check_continues(table, begin, log, fail_on_data_loss=options.fail_on_data_loss)
        end = next_offset(begin, log, files, limit)
        if start is None:
            return replace(end, begin=begin)
        return start if end == replace(start, begin=None) else end

    def _beginning(self, table: TableInfo, options: StreamOptions) -> StreamOffset:
        if options.starting_offsets != EARLIEST:
            return begin_at(table, options.starting_offsets, self._log(table, None))
        if options.changelog:
            starts = {bucket: ends.log_start for bucket, ends in self._log(table, None).items()}
            return StreamOffset(table.table_id, starts, schema_id=table.schema_id)
        base = self.checked_base(table) if table.lake_enabled else NO_LAKE
        log = self._log(table, None)
        buckets = {
            bucket: base.ranges[bucket].tiered if bucket in base.ranges else _log_start(table, bucket, log[bucket]) for bucket in log
        }
        if only_in_lake := offsets_only_in_lake(self.cluster, table, buckets):
            raise lake_disabled(table, only_in_lake)
        for bucket, offset in buckets.items():
            check_reachable(table, bucket, offset, log[bucket])
        if base.view is None or base.view.head is None:
            return StreamOffset(table.table_id, buckets, schema_id=table.schema_id)
        if base.moved_back:
            raise InvalidArgument(
                f"a stream of {table.path} cannot begin with the lake copy: another tiering service may have left rows of the bucket "
                f"{min(base.moved_back, key=BucketKey.sort_key)} in it twice",
                hint=_tier_first(table),
                table_path=table.path,
            )
        files = self._readers_at(table, base.view.head, ReadScan())
        lake = LakePart(base.view.head, len(files), mark=mark_of(base.view, base.view.head))
        return StreamOffset(table.table_id, buckets, lake if files else None, schema_id=table.schema_id)

    def _log(self, table: TableInfo, start: StreamOffset | None) -> Log:
        """Returns the log of the existing buckets. `start` None: of all buckets, because those that are missing would be read from 0.

        Raises SourceChanged if the cluster did not return a bucket that is needed, or if a partition with offsets was not listed
        afterwards: it was dropped in between, or a list is out of date.
        """
        ends = self.cluster.offsets(table)
        partitions = self.cluster.partitions(table) if table.partition_keys else ()
        living = {partition.partition_id for partition in partitions} if table.partition_keys else {None}
        if unlisted := sorted((bucket for bucket in ends if bucket.partition_id not in living), key=BucketKey.sort_key):
            message = f"the cluster returned two lists of the partitions of {table.path}, and only one has that of bucket {unlisted[0]}"
            raise SourceChanged(message, hint="Start the query again.", table_path=table.path, bucket=unlisted[0])
        if start is None:
            needed = set(bucket_keys_of(table, partitions))
        else:
            needed = {bucket for bucket in start.buckets if bucket.partition_id in living}
        if missing := sorted(needed - ends.keys(), key=BucketKey.sort_key):
            message = f"the cluster did not say how far the log of bucket {missing[0]} of {table.path} goes"
            raise SourceChanged(message, hint="Start the query again.", table_path=table.path)
        return {bucket: ends[bucket] for bucket in sorted(ends, key=BucketKey.sort_key)}

    @plan_again_if_stale
    def plan_batch(self, options: StreamOptions, scan: ReadScan, start: StreamOffset | None, end: StreamOffset) -> list[RowReader]:
        """Returns the readers of the batch from `start` to `end`: first those of the lake part.

        Raises UnknownTable, TableMismatch, LogTruncated, LogBehindLake, LakeUnavailable, InvalidArgument, SourceChanged.
        """
        table = self.cluster.table(options.path)
        check_same_table(table, end)
        if isinstance(self.cluster, FormerColumns) and end.schema_id not in (0, table.schema_id):
            check_same_columns(table, self.cluster.columns_at(table.table_id, end.schema_id), scan.columns or table.schema.names)
        batch = batch_between(start, end)
        lake = self._lake_readers(table, batch.lake, scan)
        first = 0 if batch.lake is None else batch.lake.files_done
        log = self._log(table, end)
        needed = {bucket: ends for bucket, ends in log.items() if bucket in batch.ranges}
        for side in (0, 1):
            offset = StreamOffset(end.table_id, {bucket: bounds[side] for bucket, bounds in batch.ranges.items()})
            check_continues(table, offset, needed, fail_on_data_loss=options.fail_on_data_loss)
        ranges = {bucket: bounds for bucket, bounds in batch.ranges.items() if bucket in log}
        return [*lake[: batch.files[1] - first], *self._log_readers(table, options, scan, ranges)]

    def _lake_readers(self, table: TableInfo, lake: LakePart | None, scan: ReadScan) -> list[RowReader]:
        """Returns the readers of the lake files that the stream has not read. Conditions do not leave files out: their number is fixed."""
        if lake is None:
            return []
        readers = self._readers_at(table, lake.snapshot_id, ReadScan(columns=scan.columns))
        # The snapshot is checked after its files were listed, so they are not those of a later snapshot with its id.
        if lake.mark is not None and mark_of(self.open_lake(table.lake_format).view(table.path), lake.snapshot_id) != lake.mark:
            raise LakeUnavailable(
                f"the lake table of {table.path} was rolled back: snapshot {lake.snapshot_id} is not the one of the start of the stream",
                hint=RESTART_HINT,
                table_path=table.path,
            )
        if len(readers) != lake.files:
            raise LakeUnavailable(
                f"the lake part of the stream of {table.path} has {len(readers)} parts now, and had {lake.files} when the stream began",
                hint=f"Was Lakeward upgraded, or the lake table replaced, while the stream read its lake part? {RESTART_HINT}",
                table_path=table.path,
            )
        return readers[lake.files_done :]

    def _readers_at(self, table: TableInfo, snapshot_id: int, scan: ReadScan) -> list[RowReader]:
        return plan_scan(self.cluster, self.open_lake, ReadMoment(table.path, table.table_id, snapshot_id, {}, {}), scan, self.marked)

    def _log_readers(
        self, table: TableInfo, options: StreamOptions, scan: ReadScan, ranges: Mapping[BucketKey, tuple[int, int]]
    ) -> list[RowReader]:
        starts, stops = ({bucket: bounds[side] for bucket, bounds in ranges.items()} for side in (0, 1))
        moment = ReadMoment(table.path, table.table_id, None, starts, stops)
        log = LogPart(self.cluster, table, moment, self.marked or MarkedRecords(), scan.conditions)
        if options.changelog:
            return log.changelog(whole=False)
        if table.table_type is TableType.LOG:
            return log.rows()
        changes = [LogRows(bucket.log, bucket.log_bytes) for bucket in log.changes() if bucket.log is not None]
        return [RowsAfterChanges(rows, table.path, options.ignore_deletes) for rows in changes]


def _records(reader: RowReader) -> int:
    """Returns the number of records of a reader, or an estimate from its size."""
    return reader.records if isinstance(reader, StoredRecords) else max(1, reader.size_bytes // UNSIZED_RECORD_BYTES)


def _tier_first(table: TableInfo) -> str:
    return f"Tier the table first: CALL fluss.sys.tier_table('{table.path}'). Or set startingOffsets."


def _log_start(table: TableInfo, bucket: BucketKey, ends: BucketOffsets) -> int:
    if table.table_type is TableType.PRIMARY_KEY and ends.log_start > 0:
        raise InvalidArgument(
            f"a stream of {table.path} cannot begin with the earliest rows: bucket {bucket} is not in the lake, and its log starts at "
            f"{ends.log_start}",
            hint=_tier_first(table),
            table_path=table.path,
            bucket=bucket,
        )
    return ends.log_start


@dataclass(frozen=True)
class RowsAfterChanges:
    """The rows of a primary-key table after each change, in the order of the changes."""

    changes: LogRows
    path: TablePath
    ignore_deletes: bool

    @property
    def size_bytes(self) -> int:
        return self.changes.size_bytes

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields the rows. Raises InvalidArgument for a deletion, unless deletions are ignored."""
        for batch in self.changes.read([*columns, CHANGE_TYPE_COLUMN]):
            kinds = batch.column(CHANGE_TYPE_COLUMN)
            if not self.ignore_deletes and pc.any(pc.equal(kinds, pa.scalar(ChangeType.DELETE.value, kinds.type))).as_py():
                raise InvalidArgument(
                    f"a row of {self.path} was deleted, and a stream of rows cannot show that",
                    hint=f"Stream {sql_name(self.path, CHANGELOG_SUFFIX)}, or set ignoreDeletes=true.",
                    table_path=self.path,
                )
            is_row = pc.is_in(kinds, pa.array([ChangeType.INSERT.value, ChangeType.UPDATE_AFTER.value], kinds.type))
            yield batch.filter(is_row).select(list(columns))
