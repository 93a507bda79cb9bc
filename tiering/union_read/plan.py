"""Plans a union read. `open_read` fixes its moment: the lake snapshot, its offsets L and the log ends E. `plan_scan` returns the readers of
a scan.

The lake has the records below L of each bucket, and the log part is `[L, E)`. So each row is read once, and a task that is retried reads
the same rows. The base check of a round decides whether the offsets L belong to the newest snapshot of the lake table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import tenacity

from tiering.cluster.base import SplitReader, SplitSource
from tiering.cluster.capabilities import DenseOffsets, FormerColumns, KeyBuckets
from tiering.cluster.skipping import MarkedRecords, reader_without
from tiering.errors import InvalidArgument, KvSnapshotGone, LakeDisabled, LakeUnavailable, LogTruncated, SourceChanged
from tiering.lake.base import Lake, LakeView
from tiering.lake.file_lists import RowScan
from tiering.lake.maintenance import ColumnCheck
from tiering.lake.rules.base_check import Base, ExpectedLake, check_base
from tiering.model.reading.conditions import Condition, columns_of
from tiering.model.reading.open_reads import AGAIN
from tiering.model.reading.scans import ReadMoment, ReadPart, ReadScan
from tiering.model.schema.row_conversion import has_same_values
from tiering.model.splits import TieringLogSplit, TieringSnapshotSplit
from tiering.model.tables import (
    SYSTEM_COLUMNS,
    BucketKey,
    Offsets,
    TableBucket,
    TableInfo,
    TablePath,
    TableType,
    bucket_keys_of,
)
from tiering.planning.plan_splits import Plan, cut_splits, plan_round, replaced_buckets
from tiering.union_read.changelog import ChangelogRows, changelog_schema
from tiering.union_read.primary_key.bucket_merges import BucketChanges, merged_readers
from tiering.union_read.pushdown.pruning import pruning_for
from tiering.union_read.pushdown.row_filter import conjuncts
from tiering.union_read.readers import LogRows, OneBucketRows, RowReader
from tiering.union_read.tasks import ReadTask, pack_tasks

PLAN_ATTEMPTS = 3
"""A round that commits during the planning may let the cluster cut the log behind its offsets. The next attempt sees the new snapshot."""

STALE_PLAN = (LogTruncated, SourceChanged, KvSnapshotGone)
"""Errors after which a new plan may succeed: a round, retention or a change of partitions came between two of its reads."""

plan_again_if_stale = tenacity.retry(
    stop=tenacity.stop_after_attempt(PLAN_ATTEMPTS), retry=tenacity.retry_if_exception_type(STALE_PLAN), reraise=True
)
"""Decorates a function that plans from the present state. Raises the error of the last attempt."""

UNSIZED_RECORD_BYTES = 270
"""Size of a record whose cluster does not tell it, as in `plan_splits.UNSIZED_SPLIT_RECORDS`."""

LakeOpener = Callable[[str], Lake]
"""Opens the lake of a format, such as `iceberg`."""

CheckedBase = Callable[[TableInfo], Base]
"""Reads the lake copy of a table and checks it as a round does. Raises the permanent errors of the base check, LakeUnavailable."""

LeaseSnapshots = Callable[[Mapping[TableBucket, int]], Collection[TableBucket]]
"""Leases KV snapshots (ids by bucket) for a read. Returns the buckets whose snapshot does not exist any more."""

NO_LAKE = Base(None, None, False)


@plan_again_if_stale
def open_read(source: SplitSource, path: TablePath, checked_base: CheckedBase, lease: LeaseSnapshots | None = None) -> ReadMoment:
    """Returns the moment of a read of the table `path` as of now. `lease` None: the KV snapshots of the moment are not leased.

    Raises UnknownTable, the errors of `checked_base`, LogTruncated (the log no longer has the records behind the lake's offsets),
    KvSnapshotGone, ClusterUnavailable.
    """
    return _moment(source, source.table(path), checked_base, lease)


def _moment(source: SplitSource, table: TableInfo, checked_base: CheckedBase, lease: LeaseSnapshots | None) -> ReadMoment:
    base = checked_base(table) if table.lake_enabled else NO_LAKE
    plan = _plan(source, table, base)
    moment = ReadMoment(
        path=table.path,
        table_id=table.table_id,
        lake_snapshot_id=None if base.view is None else base.view.head,
        starting_offsets=plan.bases,
        stopping_offsets=plan.stops,
        kv_snapshots={split.bucket: split.snapshot_id for split in plan.snapshots},
        replaced=replaced_buckets(plan, base.moved_back),
        lake_mark=None if base.view is None or base.view.head is None else mark_of(base.view, base.view.head),
        only_in_lake=offsets_only_in_lake(source, table, plan.bases),
        schema_id=table.schema_id,
    )
    if lease is not None:
        lease_snapshots(moment, lease)
    return moment


def _plan(source: SplitSource, table: TableInfo, base: Base) -> Plan:
    """Returns the plan of a round that would begin now. KV snapshots are read only for buckets that the lake lacks, and before the log
    ends, so that no snapshot is ahead of them."""
    ends = source.offsets(table)
    if table.table_type is TableType.LOG or ends.keys() <= base.ranges.keys():
        return plan_round(table, base.ranges, ends, source.partitions(table))
    snapshots = source.kv_snapshots(table)
    return plan_round(table, base.ranges, source.offsets(table), source.partitions(table), snapshots)


def offsets_only_in_lake(source: SplitSource, table: TableInfo, log_starts: Offsets) -> dict[BucketKey, int]:
    """Returns, per bucket, the offset before which only the lake copy has rows; empty unless it is a log table whose lake is disabled.

    `log_starts`: the first offset in the log of each living bucket. Retention cuts the log of a table whose lake is disabled, and both the
    embedded cluster and Fluss keep the record of the table's lake copy. A primary-key table has all rows in KV snapshots and the log.
    """
    cut = {bucket: start for bucket, start in log_starts.items() if start > 0}
    if table.lake_enabled or table.table_type is TableType.PRIMARY_KEY or not cut:
        return {}
    recorded = source.lake_snapshot(table)
    if recorded is None:
        return {}
    tiered = recorded.offsets or cut  # a record without offsets cannot be read: any bucket may be in the lake copy
    return {bucket: start for bucket, start in cut.items() if tiered.get(bucket)}


def lake_disabled(table: TableInfo, only_in_lake: Offsets) -> LakeDisabled:
    """Returns the error for a read of rows before the offsets that `offsets_only_in_lake` returned."""
    bucket = min(only_in_lake, key=BucketKey.sort_key)
    return LakeDisabled(
        f"the lake of {table.path} is disabled, and its rows before offset {only_in_lake[bucket]} of bucket {bucket} are only in its lake "
        "copy: the log no longer has them",
        hint=f"To read all rows, enable the lake again: CALL fluss.sys.set_table_option('{table.path}', 'table.datalake.enabled', 'true'). "
        f"SELECT * FROM lake.{table.path} reads the lake copy alone.",
        table_path=table.path,
        bucket=bucket,
    )


def snapshots_to_lease(moment: ReadMoment) -> dict[TableBucket, int]:
    """Returns the KV snapshots that the tasks of the moment read, by bucket."""
    return {TableBucket(moment.table_id, bucket): snapshot_id for bucket, snapshot_id in moment.kv_snapshots.items()}


def lease_snapshots(moment: ReadMoment, lease: LeaseSnapshots) -> None:
    """Leases the KV snapshots of the moment. Raises KvSnapshotGone if one does not exist any more."""
    snapshots = snapshots_to_lease(moment)
    if snapshots and (missing := lease(snapshots)):
        bucket = min(missing, key=lambda place: place.bucket.sort_key()).bucket
        raise KvSnapshotGone(
            f"the KV snapshot {moment.kv_snapshots[bucket]} of bucket {bucket} of {moment.path} was deleted before a read could lease it",
            hint=AGAIN,
            table_path=moment.path,
            bucket=bucket,
        )


def base_without_coordinator(source: SplitSource, open_lake: LakeOpener) -> CheckedBase:
    """Returns the base check for a reader that has no records of a coordinator, only those of the cluster."""

    def checked_base(table: TableInfo) -> Base:
        # The order of reads is that of `ExpectedLake`: the cluster's record, then the lake, then the partitions.
        recorded = source.lake_snapshot(table)
        view = open_lake(table.lake_format).view(table.path)
        living = frozenset(partition.partition_id for partition in source.partitions(table))
        copies = () if recorded is None else (recorded,)
        base = check_base(view, ExpectedLake(source.cluster_id, table.table_id, None, None, copies, living, table.path))
        check_columns(open_lake(table.lake_format), table, view)
        return base

    return checked_base


def check_columns(lake: Lake, table: TableInfo, view: LakeView | None) -> None:
    """Raises SchemaDrift if the lake table's columns no longer fit the source, as a round does.

    A lake column that a user renamed would otherwise be read as if the lake did not have it yet: as NULL.
    """
    if view is not None and isinstance(lake, ColumnCheck):
        lake.column_changes(table, view)


def scan_columns(table: TableInfo, scan: ReadScan) -> tuple[str, ...]:
    """Returns the columns of the rows of a scan: the requested ones, else the key columns for CHANGED_KEYS, else all.

    Raises InvalidArgument for a column that the rows do not have.
    """
    names = scan_schema(table, scan).names
    if unknown := [name for name in scan.columns if name not in names]:
        raise InvalidArgument(
            f"{table.path} has no column {unknown[0]!r}", hint=f"It has: {', '.join(names)}.", table_path=table.path, column=unknown[0]
        )
    return scan.columns or (table.primary_key if scan.part is ReadPart.CHANGED_KEYS else tuple(names[: len(names) - _hidden(table, scan)]))


def scan_schema(table: TableInfo, scan: ReadScan) -> pa.Schema:
    """Returns all columns that the rows of a scan may have. Raises InvalidArgument for a changelog that the table cannot have.

    Only the log rows of a log table have the system columns, last: the lake rows have them in one layout alone.
    """
    if scan.part is ReadPart.CHANGELOG:
        return changelog_schema(table)
    return table.lake_schema() if _hidden(table, scan) else table.schema


def _hidden(table: TableInfo, scan: ReadScan) -> int:
    """Returns the number of columns of `scan_schema` that are read only on request."""
    return len(SYSTEM_COLUMNS) if scan.part is ReadPart.LOG_ROWS and table.table_type is TableType.LOG else 0


def scan_tasks(table: TableInfo, readers: Sequence[RowReader], scan: ReadScan) -> list[ReadTask]:
    """Returns the tasks of a scan, whose readers `plan_scan` returned. They filter rows and stop at the limit.

    A changed key hides a row of the lake, also if its new row is not needed. So conditions on other columns do not filter changed keys.
    """
    conditions = [part for part in conjuncts(scan.conditions) if columns_of(part) <= set(scan_schema(table, scan).names)]
    if scan.part is ReadPart.CHANGED_KEYS:
        conditions = [part for part in conditions if columns_of(part) <= set(table.primary_key)]
    limit = scan.limit if len(conditions) == len(conjuncts(scan.conditions)) and scan.part is not ReadPart.CHANGED_KEYS else None
    return pack_tasks(readers, scan_columns(table, scan), conditions, limit)


def plan_scan(
    source: SplitSource, open_lake: LakeOpener, moment: ReadMoment, scan: ReadScan, marked: MarkedRecords | None = None
) -> list[RowReader]:
    """Returns the readers of a scan. `marked` has the records that the lake lacks below its ends.

    Raises SourceChanged (the table was recreated, or a partition was dropped since), LogTruncated, KvSnapshotGone, LakeUnavailable,
    SchemaDrift, InvalidArgument (an unknown column), LakeDisabled (rows are only in the lake copy), ClusterUnavailable.
    """
    table = _table_of(source, moment)
    scan_columns(table, scan)
    if moment.only_in_lake and scan.part is not ReadPart.CHANGELOG:
        raise lake_disabled(table, moment.only_in_lake)
    log = LogPart(source, table, moment, marked or MarkedRecords(), scan.conditions)
    if scan.part is ReadPart.CHANGELOG:
        return log.changelog(whole=True)
    if table.table_type is TableType.LOG:
        readers = log.rows()
        return readers if scan.part is ReadPart.LOG_ROWS else [*log.needed_of(_lake_rows(open_lake, table, moment, scan)), *readers]
    changes = log.changes()
    lake = _scan_of(open_lake, table, moment) if scan.part is ReadPart.ROWS else None
    if lake is None:
        return merged_readers(table, (), changes, scan.part)
    needless = log.needless_buckets()
    names = {bucket: log.names[bucket.partition_id] for bucket in (*needless, *(change.bucket for change in changes))}
    rows = lake[0].bucket_readers(table, *lake[1:], names, moment.replaced.union(needless), scan.conditions)
    return merged_readers(table, rows, changes, scan.part)


def with_changelog_starts(source: SplitSource, moment: ReadMoment) -> ReadMoment:
    """Returns the moment with the present starts of the logs as those of its changelog. Raises SourceChanged, ClusterUnavailable."""
    logs = source.offsets(_table_of(source, moment))
    stops = moment.stopping_offsets.items()
    return replace(moment, changelog_starts={bucket: min(logs[bucket].log_start, stop) for bucket, stop in stops if bucket in logs})


def _table_of(source: SplitSource, moment: ReadMoment) -> TableInfo:
    table = source.table(moment.path)
    if table.table_id != moment.table_id:
        message = f"{moment.path} was dropped and created again since the read began"
        raise SourceChanged(message, hint=AGAIN, table_path=moment.path)
    if moment.schema_id not in (0, table.schema_id) and not _keeps_columns(source, table, moment.schema_id):
        raise SourceChanged(f"columns of {moment.path} were changed since the read began", hint=AGAIN, table_path=moment.path)
    return table


def _keeps_columns(source: SplitSource, table: TableInfo, schema_id: int) -> bool:
    """Returns whether each former column still has its name, its type and its values, so that a statement means the same."""
    if not isinstance(source, FormerColumns):
        return False
    present = {field.name: field for field in table.schema}
    former = source.columns_at(table.table_id, schema_id)
    pairs = [(field, present[field.name]) for field in former if field.name in present]
    return len(pairs) == len(former) and all(
        before.type == after.type and has_same_values(pa.schema([before]), pa.schema([after])) for before, after in pairs
    )


def _lake_rows(open_lake: LakeOpener, table: TableInfo, moment: ReadMoment, scan: ReadScan) -> list[RowReader]:
    lake = _scan_of(open_lake, table, moment)
    return [] if lake is None else [*lake[0].row_readers(table, *lake[1:], scan.conditions)]


def _scan_of(open_lake: LakeOpener, table: TableInfo, moment: ReadMoment) -> tuple[RowScan, LakeView | None, int] | None:
    """Returns the lake, the view of the table and the snapshot that the moment has; None without a lake copy.

    Files are read with the newest columns of the lake table, so a column may have been renamed since the read began. Raises SchemaDrift.
    """
    if moment.lake_snapshot_id is None:
        return None
    lake = open_lake(table.lake_format)
    if not isinstance(lake, RowScan):
        raise InvalidArgument(
            f"this version cannot read the lake copy of {table.path} together with its log: its format is {table.lake_format}",
            hint="Read the lake copy with `lakeward sql --engine duckdb`.",
            table_path=table.path,
        )
    view = lake.view(table.path)
    check_columns(lake, table, view)
    check_mark(table.path, view, moment.lake_snapshot_id, moment.lake_mark)
    return lake, view, moment.lake_snapshot_id


def check_mark(path: TablePath, view: LakeView | None, snapshot_id: int, lake_mark: int | None) -> None:
    """Raises LakeUnavailable if the snapshot is another one than that of a moment with the mark `lake_mark`.

    A missing snapshot passes, because the lake itself reports it.
    """
    mark = mark_of(view, snapshot_id)
    if lake_mark is not None and mark is not None and mark != lake_mark:
        raise LakeUnavailable(
            f"the lake table of {path} was rolled back since the read began: its snapshot {snapshot_id} is another one",
            hint=AGAIN,
            table_path=path,
        )


def mark_of(view: LakeView | None, snapshot_id: int) -> int | None:
    """Returns `LakeSnapshot.mark` of a snapshot; None also if the table or the snapshot does not exist any more."""
    snapshot = None if view is None else view.snapshots.get(snapshot_id)
    return None if snapshot is None else snapshot.mark


def is_dense(source: SplitSource, table: TableInfo) -> bool:
    """Whether the number of a bucket's records is the difference of its offsets."""
    return isinstance(source, DenseOffsets) and source.has_dense_offsets(table)


class LogPart:
    """The readers of the log part of a moment, as far as the conditions need it.

    All changes of a key are in one bucket. So the changes of a bucket that the conditions exclude hide no row that is needed.
    """

    def __init__(
        self, source: SplitSource, table: TableInfo, moment: ReadMoment, marked: MarkedRecords, conditions: Sequence[Condition]
    ) -> None:
        self._source = source
        self._table = table
        self._moment = moment
        self._marked = marked
        self.names: dict[int | None, str | None] = {None: None}
        """Names of the living partitions."""
        self._partitions = partitions = source.partitions(table)
        self.names |= {partition.partition_id: partition.partition_name for partition in partitions}
        self._ends = source.offsets(table)
        buckets_of_keys = partial(source.key_buckets, table) if isinstance(source, KeyBuckets) else None
        self._pruning = pruning_for(table, conditions, partitions, buckets_of_keys)
        self._is_dense = is_dense(source, table)

    def rows(self) -> list[RowReader]:
        """Returns the readers of a log table, several for a long range."""
        return [
            LogRows(self._reader(split), self._bytes(bucket, split.records), self._records(split))
            for bucket in self._buckets()
            for split in cut_splits(self._split(bucket), self._ends[bucket].bytes_per_record)
        ]

    def changelog(self, *, whole: bool) -> list[RowReader]:
        """Returns the readers of the records with their kinds: those of the moment, or of the `whole` log up to the stopping offsets.

        The whole log begins at the `changelog_starts` of the moment. If it has none, the log begins where retention has cut it by now.
        """
        table, readers = self._table, list[RowReader]()
        for bucket in self._living(self._moment.stopping_offsets):
            split, ends = self._split(bucket), self._ends[bucket]
            if whole:
                split = replace(split, starting_offset=self._moment.changelog_starts.get(bucket, ends.log_start))
            if split.starting_offset < split.stopping_offset:
                for part in cut_splits(split, ends.bytes_per_record):
                    size = self._bytes(bucket, part.records)
                    readers.append(ChangelogRows(self._reader(part), table.schema, table.table_type, size, self._records(part)))
        return readers

    def changes(self) -> list[BucketChanges]:
        """Returns the changes of each bucket of a primary-key table: its KV snapshot if it begins with one, and its range of the log."""
        buckets: list[BucketChanges] = []
        for bucket in self._buckets():
            split = self._split(bucket)
            log = self._reader(split) if split.records else None
            snapshot, snapshot_bytes = None, 0
            if bucket in self._moment.kv_snapshots:
                snapshot = self._source.reader(self._table, self._snapshot(bucket))
                # Every key of a KV snapshot was written at least once.
                snapshot_bytes = self._bytes(bucket, split.starting_offset)
            buckets.append(BucketChanges(bucket, log, self._bytes(bucket, split.records), snapshot, snapshot_bytes))
        return buckets

    def needless_buckets(self) -> list[BucketKey]:
        """Returns the living buckets that the conditions exclude."""
        return [bucket for bucket in bucket_keys_of(self._table, self._partitions) if not self._pruning.may_match(bucket)]

    def needed_of(self, lake: Iterable[RowReader]) -> list[RowReader]:
        """Returns the readers of lake files without those of buckets that the conditions exclude."""
        return [reader for reader in lake if not isinstance(reader, OneBucketRows) or self._pruning.may_match_bucket(reader.bucket_id)]

    def _buckets(self) -> list[BucketKey]:
        """Returns the buckets with something to read. Raises SourceChanged for a bucket that does not exist any more."""
        moment = self._moment
        return self._living(
            bucket
            for bucket, stop in moment.stopping_offsets.items()
            if stop > moment.starting_offsets[bucket] or bucket in moment.kv_snapshots
        )

    def _living(self, buckets: Iterable[BucketKey]) -> list[BucketKey]:
        """Returns the buckets that the conditions need. Raises SourceChanged if one of `buckets` does not exist any more: the values of a
        dropped partition are unknown."""
        path, needed = self._table.path, []
        for bucket in buckets:
            if bucket.partition_id not in self.names or bucket not in self._ends:
                message = f"a partition of {path} was dropped since the read began"
                raise SourceChanged(message, hint=AGAIN, table_path=path, bucket=bucket)
            if self._pruning.may_match(bucket):
                needed.append(bucket)
        return needed

    def _split(self, bucket: BucketKey) -> TieringLogSplit:
        moment, name = self._moment, self.names[bucket.partition_id]
        return TieringLogSplit(self._table.path, bucket, name, moment.starting_offsets[bucket], moment.stopping_offsets[bucket], None)

    def _snapshot(self, bucket: BucketKey) -> TieringSnapshotSplit:
        moment, name = self._moment, self.names[bucket.partition_id]
        return TieringSnapshotSplit(self._table.path, bucket, name, moment.kv_snapshots[bucket], moment.starting_offsets[bucket], None)

    def _reader(self, split: TieringLogSplit) -> SplitReader:
        skipped, put_aside = (offsets.get(split.bucket, ()) for offsets in (self._marked.skipped, self._marked.put_aside))
        return reader_without(lambda part: self._source.reader(self._table, part), split, skipped, put_aside)

    def _records(self, split: TieringLogSplit) -> int | None:
        """Returns the number of records that `_reader` yields; None = unknown."""
        skipped, put_aside = (
            sum(split.starting_offset <= offset < split.stopping_offset for offset in offsets.get(split.bucket, ()))
            for offsets in (self._marked.skipped, self._marked.put_aside)
        )
        return split.records - skipped if self._is_dense and not put_aside else None

    def _bytes(self, bucket: BucketKey, records: int) -> int:
        size = self._ends[bucket].bytes_per_record
        return int(records * (UNSIZED_RECORD_BYTES if size is None else size))
