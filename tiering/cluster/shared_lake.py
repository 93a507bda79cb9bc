"""Reads what the rules of `tiering.lake.rules.shared_base` need about a lake table that another tiering service writes too.

A round and the coordinator both use these functions, so that they come to the same result. In EXCLUSIVE mode the functions read nothing.
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
from tiering.lake.log_starts import LogStart
from tiering.lake.maintenance import CleanForeignCommits, ForeignCommits
from tiering.lake.proof.change_sums import ChangeSums, LogFold
from tiering.lake.rules.empty_ranges import EmptyUpTo, Skipped, all_skipped
from tiering.lake.rules.shared_base import walked
from tiering.model.assignments import ServiceMode
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import OFFSET_COLUMN, BucketKey, SkippedRecords, TableInfo

CHANGELOG_IMAGE, WITHOUT_BEFORE_IMAGES = "table.changelog.image", "WAL"
"""Fluss's table option for a changelog without `-U` records, and the value that turns it on."""
LeftOut = Callable[[], Skipped]
"""Returns the records that `CALL sys.skip_record` left out. Called only when the log is read, once for each read."""
NO_LOG = LogStart(1 << 62, None)
"""For a bucket that does not exist any more: nothing tells which table or partition its rows belong to."""


def recorded_by_cluster(source: SplitSource, table: TableInfo) -> tuple[RecordedLakeSnapshot | None, bool]:
    """Returns the cluster's lake record of the table, and whether it could be read. Read the record before the lake.

    Raises LakeRecordUnreadable in EXCLUSIVE mode, where no other service can have deleted the record.
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
    """Returns `view` with the walk of the other service's commits, for a lake that can tell which rows they added.

    `skipped` are records that were left out, in addition to those in the marker. The log is asked which of them it still has only when the
    walk reads the log.

    Raises LakeUnavailable, ClusterUnavailable, SchemaDrift. A problem with the commits themselves is in the returned view.
    """
    if not isinstance(lake, ForeignCommits):
        return view
    left_out = cache(lambda: all_skipped(view.marker, still_skipped(source, table, skipped or {})))
    readers = _readers(source, lake, table, view, left_out)
    return walked(view, records, passed_head, table.table_type, readers)


def _readers(source: SplitSource, lake: ForeignCommits, table: TableInfo, view: LakeView, left_out: LeftOut) -> ForeignReaders:
    """Returns the functions with which the walk reads lake and log.

    They look up the partitions and the begins of the logs once, and only when the walk needs them.
    """
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

    begins: dict[BucketKey, LogStart] = {}

    def log_begin(bucket: BucketKey) -> LogStart:
        if not begins:
            begins.update(log_starts(source, table))
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


def log_starts(source: SplitSource, table: TableInfo) -> dict[BucketKey, LogStart]:
    """Returns where the logs of existing partitions' buckets begin; nothing for a table without partitions. Raises ClusterUnavailable."""
    if not table.partition_keys:
        return {}
    times = source.oldest_timestamps(table, {bucket: log.log_start for bucket, log in source.offsets(table).items()})
    # Offsets come last. If a log is cut between the calls, the rows below the cut are then of unknown origin, and do not count as a former
    # partition's.
    starts = {bucket: log.log_start for bucket, log in source.offsets(table).items()}
    return {bucket: LogStart(start, to_milliseconds(times[bucket]) if bucket in times else None) for bucket, start in starts.items()}


def clean_up_after_commit(cluster: ClusterOwner, table: TableInfo, view: LakeView) -> None:
    """Lets the cluster remove files of earlier commits. The cluster knows Lakeward's newest snapshot, and no other service's snapshot
    follows it.
    """
    if isinstance(cluster, LakeCommitCleanUp) and view.tiered is not None:
        paths = {snapshot_id: path for snapshot_id, snapshot in view.snapshots.items() if (path := snapshot.offsets_path) is not None}
        cluster.clean_up_lake_commits(table, view.tiered, paths)


def empty_in_log(source: SplitSource, table: TableInfo, skipped: Skipped) -> EmptyUpTo:
    """Returns a function that reads the log up to its first row, without the `skipped` records.

    For a range that is not completely in the log, or in a partition that does not exist any more, the function returns the range's start.
    """

    def empty_up_to(bucket: BucketKey, start: int, stop: int) -> int:
        split = _log_split(source, table, bucket, start, stop)
        if split is None or (split.starting_offset, split.stopping_offset) != (start, stop):
            return start
        try:
            for batch in reader_without(partial(source.reader, table), split, skipped.get(bucket, ())).read():
                if batch.num_rows:
                    return int(batch.column(OFFSET_COLUMN).to_numpy().min())
        except LogTruncated:  # retention removed records during the read
            return start
        return stop

    return empty_up_to


def _log_split(source: SplitSource, table: TableInfo, bucket: BucketKey, start: int, stop: int) -> TieringLogSplit | None:
    """Returns a split of the part of the range that the log has, which may be empty; None for a bucket that does not exist any more."""
    bounds = source.offsets(table).get(bucket)
    names = {partition.partition_id: partition.partition_name for partition in source.partitions(table)}
    if bounds is None or (bucket.partition_id is not None and bucket.partition_id not in names):
        return None
    name = None if bucket.partition_id is None else names[bucket.partition_id]
    first, last = max(start, bounds.log_start), min(stop, bounds.log_end)
    return TieringLogSplit(table.path, bucket, name, first, last, bounds.log_end)


def log_rows(source: SplitSource, table: TableInfo, left_out: LeftOut) -> LogRows:
    """Returns a function that reads the log up to its first row, without the records that were left out.

    The function returns None where the log cannot tell: outside of the log, or in a partition that does not exist any more.
    """

    def holds_rows(bucket: BucketKey, start: int, stop: int) -> bool | None:
        split = _log_split(source, table, bucket, start, stop)
        if split is None:
            return None
        answer_without_rows = None if split.starting_offset > start or split.stopping_offset < stop else False
        if split.starting_offset >= split.stopping_offset:
            return answer_without_rows
        reader = reader_without(partial(source.reader, table), split, left_out().get(bucket, ()))
        try:
            return any(batch.num_rows for batch in reader.read()) or answer_without_rows
        except LogTruncated:  # retention removed records during the read
            return None

    return holds_rows


def log_sums(source: SplitSource, table: TableInfo, left_out: LeftOut) -> LogSums:
    """Returns a function that reads a whole range of the log in this process, without the records that were left out.

    It needs memory for one batch, and 17 bytes for each key that changed. This is exact rather than fast: where Lakeward is the main
    service, rounds of another service that need this comparison are rare.
    """

    def sums(bucket: BucketKey, start: int, stop: int) -> ChangeSums | None:
        split = _log_split(source, table, bucket, start, stop)
        if split is None or (split.starting_offset, split.stopping_offset) != (start, stop):
            return None
        fold = LogFold(table)
        try:
            for batch in reader_without(partial(source.reader, table), split, left_out().get(bucket, ())).read():
                fold.add(batch)
        except LogTruncated:  # retention removed records during the read
            return None
        return fold.sums()

    return sums
