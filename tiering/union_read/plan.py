"""Plans a union read. `open_read` fixes its moment: the lake snapshot, its offsets L and the log ends E. `plan_scan` returns the readers of
a scan.

The lake has the records below L of each bucket, and the log part is `[L, E)`. So each row is read once, and a task that is retried reads
the same rows. The base check of a round decides whether L describes the lake's head.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tiering.cluster.base import SplitSource
from tiering.cluster.skipping import reader_without
from tiering.errors import InvalidArgument, KvSnapshotGone, LogTruncated, SourceChanged
from tiering.lake.base import Lake
from tiering.lake.file_lists import RowScan
from tiering.lake.maintenance import ColumnCheck
from tiering.lake.rules.base_check import Base, ExpectedLake, check_base
from tiering.model.reading.scans import ReadMoment, ReadPart, ReadScan
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import SkippedRecords, TableInfo, TablePath, TableType
from tiering.planning.plan_splits import cut_splits, plan_round
from tiering.union_read.readers import LogRows, RowReader

PLAN_ATTEMPTS = 3
"""A round that commits during the planning may let the cluster cut the log behind its offsets. The next attempt sees the new snapshot."""

UNSIZED_RECORD_BYTES = 270
"""Size of a record whose cluster does not tell it, as in `plan_splits.UNSIZED_SPLIT_RECORDS`."""

LakeOpener = Callable[[str], Lake]
"""Opens the lake of a format, such as `iceberg`."""

CheckedBase = Callable[[TableInfo], Base]
"""Reads the lake copy of a table and checks it as a round does. Raises the permanent errors of the base check, LakeUnavailable."""

NO_LAKE = Base(None, None, False)


def open_read(source: SplitSource, path: TablePath, checked_base: CheckedBase) -> ReadMoment:
    """Returns the moment of a read of the table `path` as of now.

    Raises UnknownTable, the errors of `checked_base`, LogTruncated (the log no longer has the records behind the lake's offsets),
    KvSnapshotGone, ClusterUnavailable.
    """
    for _ in range(PLAN_ATTEMPTS - 1):
        try:
            return _moment(source, source.table(path), checked_base)
        except (LogTruncated, SourceChanged, KvSnapshotGone):
            continue
    return _moment(source, source.table(path), checked_base)


def _moment(source: SplitSource, table: TableInfo, checked_base: CheckedBase) -> ReadMoment:
    if table.table_type is not TableType.LOG:
        raise InvalidArgument(
            f"{table.path} is a primary-key table: this version reads only log tables together with their log",
            hint=f"Read the lake copy: SELECT * FROM fluss.{table.path}.",
            table_path=table.path,
        )
    base = checked_base(table) if table.lake_enabled else NO_LAKE
    plan = plan_round(table, base.ranges, source.offsets(table), source.partitions(table))
    return ReadMoment(table.path, table.table_id, None if base.view is None else base.view.head, plan.bases, plan.stops)


def base_without_coordinator(source: SplitSource, open_lake: LakeOpener) -> CheckedBase:
    """Returns the base check for a reader that has no records of a coordinator, only those of the cluster."""

    def checked_base(table: TableInfo) -> Base:
        # The order of reads is that of `ExpectedLake`: the cluster's record, then the lake, then the partitions.
        recorded = source.lake_snapshot(table)
        view = open_lake(table.lake_format).view(table.path)
        living = frozenset(partition.partition_id for partition in source.partitions(table))
        copies = () if recorded is None else (recorded,)
        base = check_base(view, ExpectedLake(source.cluster_id, table.table_id, None, None, copies, living, table.path))
        check_columns(open_lake(table.lake_format), table, base)
        return base

    return checked_base


def check_columns(lake: Lake, table: TableInfo, base: Base) -> None:
    """Raises SchemaDrift if the lake table's columns no longer fit the source, as a round does.

    A lake column that a user renamed would otherwise be read as if the lake did not have it yet: as NULL.
    """
    if base.view is not None and isinstance(lake, ColumnCheck):
        lake.new_columns(table, base.view)


def plan_scan(
    source: SplitSource, open_lake: LakeOpener, moment: ReadMoment, scan: ReadScan, skipped: SkippedRecords | None = None
) -> list[RowReader]:
    """Returns the readers of a scan. `skipped` has the records that `CALL sys.skip_record` left out.

    Raises SourceChanged (the table was recreated, or a partition was dropped since), LogTruncated, LakeUnavailable, SchemaDrift,
    InvalidArgument (an unknown column), ClusterUnavailable.
    """
    table = source.table(moment.path)
    if table.table_id != moment.table_id:
        raise SourceChanged(f"{moment.path} was dropped and created again since the read began", table_path=moment.path)
    log = _log_readers(source, table, moment, skipped or {})
    return log if scan.part is ReadPart.LOG_ROWS else [*_lake_readers(open_lake, table, moment), *log]


def _lake_readers(open_lake: LakeOpener, table: TableInfo, moment: ReadMoment) -> list[RowReader]:
    if moment.lake_snapshot_id is None:
        return []
    lake = open_lake(table.lake_format)
    if not isinstance(lake, RowScan):
        raise InvalidArgument(
            f"this version cannot read the lake copy of {table.path} together with its log: its format is {table.lake_format}",
            hint="Read the lake copy with `lakeward sql --engine duckdb`.",
            table_path=table.path,
        )
    return [*lake.row_readers(table, lake.view(table.path), moment.lake_snapshot_id)]


def _log_readers(source: SplitSource, table: TableInfo, moment: ReadMoment, skipped: SkippedRecords) -> list[RowReader]:
    names: dict[int | None, str | None] = {None: None}
    names |= {partition.partition_id: partition.partition_name for partition in source.partitions(table)}
    ends = source.offsets(table)
    readers: list[RowReader] = []
    for bucket, stop in moment.stopping_offsets.items():
        if stop == moment.starting_offsets[bucket]:
            continue
        if bucket.partition_id not in names or bucket not in ends:
            raise SourceChanged(f"a partition of {table.path} was dropped since the read began", table_path=table.path, bucket=bucket)
        record_bytes = ends[bucket].bytes_per_record
        whole = TieringLogSplit(table.path, bucket, names[bucket.partition_id], moment.starting_offsets[bucket], stop, None)
        for split in cut_splits(whole, record_bytes):
            size = split.records * (UNSIZED_RECORD_BYTES if record_bytes is None else record_bytes)
            readers.append(LogRows(reader_without(partial(source.reader, table), split, skipped.get(bucket, ())), int(size)))
    return readers
