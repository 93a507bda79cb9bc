"""Looks at a lake table that another tiering service works on, too: reads what the rules of `tiering.lake.rules.shared_base` ask for.

A round and the coordinator both look through it, so that one answer holds for both. In EXCLUSIVE mode it reads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial

from tiering.cluster.base import ClusterOwner, SplitSource
from tiering.cluster.capabilities import LakeCommitCleanUp, service_mode_of
from tiering.cluster.skipping import reader_without, still_skipped
from tiering.errors import LakeRecordUnreadable, LogTruncated
from tiering.instants import to_milliseconds
from tiering.lake.base import Lake, LakeView
from tiering.lake.foreign import CleanRows, ForeignReaders, LogRows, LogSums, SharedRecords
from tiering.lake.log_begins import LogBegin
from tiering.lake.maintenance import CleanForeignCommits, ForeignCommits
from tiering.lake.proof.change_sums import ChangeSums, LogFold
from tiering.lake.rules.empty_ranges import EmptyUpTo, Skipped, all_skipped
from tiering.lake.rules.shared_base import walked
from tiering.model.assignments import ServiceMode
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import OFFSET_COLUMN, BucketKey, SkippedRecords, TableInfo

CHANGELOG_IMAGE, WITHOUT_BEFORE_IMAGES = "table.changelog.image", "WAL"
"""Fluss's option by which a changelog has no `-U`, and the value that says so."""
LeftOut = Callable[[], Skipped]
"""The records that `CALL sys.skip_record` left out; called for each read of the log, and only then."""
NO_LOG = LogBegin(1 << 62, None)
"""Of a bucket that is gone: nothing tells whose its rows are."""


def recorded_by_cluster(source: SplitSource, table: TableInfo) -> tuple[RecordedLakeSnapshot | None, bool]:
    """What the cluster recorded of the lake table, and whether that could be read. Read it before the lake.

    Raises LakeRecordUnreadable in EXCLUSIVE mode, where nobody else can have deleted it.
    """
    try:
        return source.lake_snapshot(table), True
    except LakeRecordUnreadable:
        if service_mode_of(source) is ServiceMode.EXCLUSIVE:
            raise
        return None, False


def with_foreign_commits(
    source: SplitSource,
    lake: Lake,
    table: TableInfo,
    view: LakeView,
    records: SharedRecords,
    passed_head: int | None,
    skipped: SkippedRecords | None = None,
) -> LakeView:
    """`view` with the walk of the other service's commits, of a lake that can tell what they added.

    `skipped`: records that were left out, besides the marker's. Those that the log still has are looked up once the walk reads the log.

    Raises LakeUnavailable, ClusterUnavailable, SchemaDrift; what the walk makes of the commits is in the view.
    """
    if not isinstance(lake, ForeignCommits):
        return view
    left_out = cache(lambda: all_skipped(view.marker, still_skipped(source, table, skipped or {})))
    readers = _readers(source, lake, table, view, left_out)
    return walked(view, records, passed_head, table.table_type, readers)


def _readers(source: SplitSource, lake: ForeignCommits, table: TableInfo, view: LakeView, left_out: LeftOut) -> ForeignReaders:
    """What the walk may ask of lake and log. Partitions, and where logs begin, are looked up once, and only where they are asked for."""
    partitions: dict[str, int] = {}

    def ids() -> dict[str, int]:
        if table.partition_keys and not partitions:
            partitions.update((partition.partition_name, partition.partition_id) for partition in source.partitions(table))
        return partitions

    def clean_rows(snapshot_ids: Sequence[int], members: Collection[int]) -> Sequence[CleanRows]:
        if not isinstance(lake, CleanForeignCommits):
            raise AssertionError(f"{type(lake).__name__} has rows that it cannot sum")
        partitions = {name: partition_id for name, partition_id in ids().items() if partition_id in members}
        return lake.clean_rows(table, view, snapshot_ids, partitions)

    begins: dict[BucketKey, LogBegin] = {}

    def log_begin(bucket: BucketKey) -> LogBegin:
        if not begins:
            begins.update(log_begins(source, table))
        return begins.get(bucket, NO_LOG)

    return ForeignReaders(
        lambda snapshot_id: lake.foreign_snapshot(table, view, snapshot_id, ids()),
        clean_rows,
        log_rows(source, table, left_out),
        log_sums(source, table, left_out),
        lambda: frozenset(ids().values()),
        log_begin,
        table.properties.get(CHANGELOG_IMAGE, "").upper() != WITHOUT_BEFORE_IMAGES,
    )


def log_begins(source: SplitSource, table: TableInfo) -> dict[BucketKey, LogBegin]:
    """Where the logs of the buckets of living partitions begin; empty for a table without partitions. Raises ClusterUnavailable."""
    if not table.partition_keys:
        return {}
    times = source.oldest_timestamps(table, {bucket: log.log_start for bucket, log in source.offsets(table).items()})
    # The offsets last: rows below the cut of a log that is cut in between are unknown then, and not taken for a former partition's.
    starts = {bucket: log.log_start for bucket, log in source.offsets(table).items()}
    return {bucket: LogBegin(start, to_milliseconds(times[bucket]) if bucket in times else None) for bucket, start in starts.items()}


def clean_up_after_commit(cluster: ClusterOwner, table: TableInfo, view: LakeView) -> None:
    """Lets the cluster remove what earlier commits left there: it knows the newest one of ours, behind which there is no foreign one."""
    if isinstance(cluster, LakeCommitCleanUp) and view.tiered is not None:
        paths = {snapshot_id: path for snapshot_id, snapshot in view.snapshots.items() if (path := snapshot.offsets_path) is not None}
        cluster.clean_up_lake_commits(table, view.tiered, paths)


def empty_in_log(source: SplitSource, table: TableInfo, skipped: Skipped) -> EmptyUpTo:
    """Reads the log without the records at `skipped` up to its first row.

    A range that it does not hold all of, or of a partition that is gone, it cannot tell.
    """

    def empty_up_to(bucket: BucketKey, start: int, stop: int) -> int:
        split = _log_split(source, table, bucket, start, stop)
        if split is None or (split.starting_offset, split.stopping_offset) != (start, stop):
            return start
        try:
            for batch in reader_without(partial(source.reader, table), split, skipped.get(bucket, ())).read():
                if batch.num_rows:
                    return int(batch.column(OFFSET_COLUMN).to_numpy().min())
        except LogTruncated:  # retention came in between
            return start
        return stop

    return empty_up_to


def _log_split(source: SplitSource, table: TableInfo, bucket: BucketKey, start: int, stop: int) -> TieringLogSplit | None:
    """What the log holds of a range, which may be less or nothing; None of a bucket that is gone."""
    bounds = source.offsets(table).get(bucket)
    names = {partition.partition_id: partition.partition_name for partition in source.partitions(table)}
    if bounds is None or (bucket.partition_id is not None and bucket.partition_id not in names):
        return None
    name = None if bucket.partition_id is None else names[bucket.partition_id]
    first, last = max(start, bounds.log_start), min(stop, bounds.log_end)
    return TieringLogSplit(table.path, bucket, name, first, last, bounds.log_end)


def log_rows(source: SplitSource, table: TableInfo, left_out: LeftOut) -> LogRows:
    """Reads the log without the records that are left out up to its first row.

    Of what is outside of it, or in a partition that is gone, it cannot tell.
    """

    def holds_rows(bucket: BucketKey, start: int, stop: int) -> bool | None:
        split = _log_split(source, table, bucket, start, stop)
        if split is None:
            return None
        unknown = None if split.starting_offset > start or split.stopping_offset < stop else False
        if split.starting_offset >= split.stopping_offset:
            return unknown
        try:
            return (
                True
                if any(batch.num_rows for batch in reader_without(partial(source.reader, table), split, left_out().get(bucket, ())).read())
                else unknown
            )
        except LogTruncated:  # retention came in between
            return None

    return holds_rows


def log_sums(source: SplitSource, table: TableInfo, left_out: LeftOut) -> LogSums:
    """Reads all of a range of the log without the records that are left out, in this process.

    Memory is that of a batch, and 17 bytes a key that changed.

    Rounds of another service that are compared so are rare where this one is the main service, and exact comes before fast.
    """

    def sums(bucket: BucketKey, start: int, stop: int) -> ChangeSums | None:
        split = _log_split(source, table, bucket, start, stop)
        if split is None or (split.starting_offset, split.stopping_offset) != (start, stop):
            return None
        fold = LogFold(table)
        try:
            for batch in reader_without(partial(source.reader, table), split, left_out().get(bucket, ())).read():
                fold.add(batch)
        except LogTruncated:  # retention came in between
            return None
        return fold.sums()

    return sums
