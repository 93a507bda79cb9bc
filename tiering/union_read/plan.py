"""Plans a union read: fixes the lake snapshot, its offsets L and the log ends E, and returns the readers of both parts.

The lake has the records below L of each bucket, and the log part is `[L, E)`. So each row is read once, and a task that is retried reads
the same rows. The base check of a round decides whether L describes the lake's head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tiering.cluster.base import SplitReader, SplitSource
from tiering.errors import InvalidArgument, KvSnapshotGone, LogTruncated, SourceChanged
from tiering.lake.base import Lake
from tiering.lake.file_lists import LakeRowReader, RowScan
from tiering.lake.rules.base_check import Base, ExpectedLake, check_base
from tiering.model.tables import BucketOffsets, Offsets, TableInfo, TablePath, TableType
from tiering.planning.plan_splits import plan_round

PLAN_ATTEMPTS = 3
"""A round that commits during the planning may let the cluster cut the log behind its offsets. The next attempt sees the new snapshot."""

UNSIZED_RECORD_BYTES = 270
"""Size of a record whose cluster does not tell it, as in `plan_splits.UNSIZED_SPLIT_RECORDS`."""

LakeOpener = Callable[[str], Lake]
"""Opens the lake of a format, such as `iceberg`."""


@dataclass(frozen=True)
class SizedReader:
    """A reader of one part of a union read, and the approximate number of bytes that it reads."""

    reader: LakeRowReader | SplitReader
    size_bytes: int


@dataclass(frozen=True)
class UnionRead:
    """One planned union read. `lake_snapshot_id` None: the table has no lake copy yet, and all rows come from the log."""

    table: TableInfo
    lake_snapshot_id: int | None
    starting_offsets: Offsets
    """L: per bucket the first offset that is read from the log. The lake snapshot has the records below it."""
    stopping_offsets: Offsets
    """E: per bucket the end of the log when the read was planned."""
    readers: tuple[SizedReader, ...]

    @property
    def log_records(self) -> int:
        """Upper bound of the number of log records, because some clusters use offsets without a record."""
        return sum(stop - self.starting_offsets[bucket] for bucket, stop in self.stopping_offsets.items())


def plan_union_read(source: SplitSource, open_lake: LakeOpener, path: TablePath) -> UnionRead:
    """Plans the read of the table `path` as of now.

    Raises UnknownTable, InvalidArgument (a primary-key table, a lake format without `RowScan`), the permanent errors of the base check,
    LogTruncated (the log no longer has records between L and E), LakeUnavailable, ClusterUnavailable.
    """
    for _ in range(PLAN_ATTEMPTS - 1):
        try:
            return _plan(source, open_lake, path)
        except (LogTruncated, SourceChanged, KvSnapshotGone):
            continue
    return _plan(source, open_lake, path)


def _plan(source: SplitSource, open_lake: LakeOpener, path: TablePath) -> UnionRead:
    table = source.table(path)
    if table.table_type is not TableType.LOG:
        raise InvalidArgument(
            f"{path} is a primary-key table: this version reads only log tables together with their log",
            hint=f"Read the lake copy: SELECT * FROM fluss.{path}.",
            table_path=path,
        )
    lake = open_lake(table.lake_format) if table.lake_enabled else None
    base = Base(None, None, False) if lake is None else _base(source, lake, table)
    ends = source.offsets(table)
    plan = plan_round(table, base.ranges, ends, source.partitions(table))
    log_readers = [SizedReader(source.reader(table, split), _size(split.records, ends[split.bucket])) for split in plan.splits]
    return UnionRead(
        table,
        None if base.view is None else base.view.head,
        plan.bases,
        plan.stops,
        (*_lake_readers(lake, table, base), *log_readers),
    )


def _base(source: SplitSource, lake: Lake, table: TableInfo) -> Base:
    """Returns the checked lake table. The cluster's record is read before the lake, and the partitions after it (`ExpectedLake`)."""
    recorded = source.lake_snapshot(table)
    view = lake.view(table.path)
    living = frozenset(partition.partition_id for partition in source.partitions(table))
    copies = () if recorded is None else (recorded,)
    return check_base(view, ExpectedLake(source.cluster_id, table.table_id, None, None, copies, living, table.path))


def _lake_readers(lake: Lake | None, table: TableInfo, base: Base) -> Sequence[SizedReader]:
    if lake is None or base.view is None or base.view.head is None:
        return ()
    if not isinstance(lake, RowScan):
        raise InvalidArgument(
            f"this version cannot read the lake copy of {table.path} together with its log: its format is {table.lake_format}",
            hint="Read the lake copy with `lakeward sql --engine duckdb`.",
            table_path=table.path,
        )
    return [SizedReader(reader, reader.size_bytes) for reader in lake.row_readers(table, base.view)]


def _size(records: int, bounds: BucketOffsets) -> int:
    return int(records * (UNSIZED_RECORD_BYTES if bounds.bytes_per_record is None else bounds.bytes_per_record))
