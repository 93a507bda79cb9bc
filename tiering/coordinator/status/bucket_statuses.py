"""How far the lake is with each bucket of a table: the last observation of the log, and what is recorded about the lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from tiering import errors
from tiering.cluster.capabilities import BlockingRecord
from tiering.coordinator.decisions.records import CommitState, TableRecord, TextOffsets, from_text
from tiering.coordinator.observing.lag import Lag, Observation, lag_of
from tiering.counts import counted
from tiering.model.buckets import BucketStatus
from tiering.model.refused_records import RECORD_ID, without_record
from tiering.model.tables import BucketKey, BucketOffsets, TableType
from tiering.planning.check_log import LogGap, log_gaps

LAKE_NOT_AS_RECORDED = frozenset(
    kind.__name__
    for kind in (
        errors.ClusterMismatch,
        errors.HistoryExpired,
        errors.LakeRolledBack,
        errors.LakeTableReplaced,
        errors.MarkerCorrupt,
        errors.MarkerLost,
        errors.RecordAheadOfLake,
        errors.TableMismatch,
        errors.UntrackedLakeTable,
    )
)
"""Errors of a table whose lake does not hold what is recorded about it."""


def bucket_statuses(
    record: TableRecord,
    observation: Observation | None,
    now: datetime,
    partition_names: Callable[[], Mapping[int, str]],
    blocking: Mapping[BucketKey, BlockingRecord],
) -> Iterator[BucketStatus]:
    """Yields one status per bucket of the log or the lake, by partition and bucket.

    `partition_names` is called only if there are partitions, because the cluster lists them. `blocking` has the buckets that are stopped
    according to the cluster.
    """
    log = {} if observation is None else observation.buckets
    lake = from_text(record.shown_offsets or {})
    buckets = sorted({*log, *lake}, key=BucketKey.sort_key)
    names = partition_names() if any(bucket.partition_id is not None for bucket in buckets) else {}
    backlog, start, staged = record.lake.backlog, record.lake.backlog_start, _staged(record)
    gaps = {gap.bucket: gap for gap in _gaps(record, lake, log, names)}
    for bucket in buckets:
        name, offsets, lag = str(bucket), log.get(bucket), _lag(observation, bucket, record.shown_offsets)
        yield BucketStatus(
            database_name=record.database_name,
            table_name=record.table_name,
            partition_id=bucket.partition_id,
            partition_name=None if bucket.partition_id is None else names.get(bucket.partition_id),
            bucket_id=bucket.bucket_id,
            log_start_offset=None if offsets is None else offsets.log_start,
            log_end_offset=None if offsets is None else offsets.log_end,
            lake_offset=lake.get(bucket),
            staged_offset=staged.get(name),
            lag_records=None if lag is None else lag.records,
            lag_ms=None if lag is None else lag.age_ms(now),
            oldest_pending_time=None if lag is None else lag.oldest_time,
            backlog_offset=None if backlog is None else backlog.get(name),
            is_backlog=None if backlog is None or (start is not None and start.touches(name)) else name in backlog,
            offsets_observed_time=None if observation is None else observation.time,
            **_error(record, name, lake.get(bucket), blocking.get(bucket), gaps.get(bucket)),
            **_places(record, name, offsets, observed=observation is not None),
        )


def _gaps(
    record: TableRecord, lake: Mapping[BucketKey, int], log: Mapping[BucketKey, BucketOffsets], names: Mapping[int, str]
) -> tuple[LogGap, ...]:
    """Returns the gaps of a table whose log was cut behind the records that its lake has."""
    if record.error is None or record.error.error_class != errors.LogTruncated.__name__:
        return ()
    places: dict[int | None, str | None] = {None: None}
    places.update(names.items())
    return log_gaps(lake, log, places)


def _error(record: TableRecord, name: str, tiered: int | None, blocking: BlockingRecord | None, gap: LogGap | None) -> dict[str, Any]:
    """Returns why the bucket is stopped: the cluster's reason, records that are missing, or the table's last error if that names the
    bucket."""
    if blocking is not None:
        stopped = {"stopped_at_offset": blocking.offset, "stopped_at_record": blocking.record_text}
        return {"error_class": errors.BucketStopped.__name__, "error_message": blocking.reason, **stopped}
    error = record.error
    if gap is not None:
        stopped = {"stopped_at_offset": gap.start, "stopped_at_record": None}
        message = f"{gap.in_words()} ({counted(gap.records, 'record')})"
        return {"error_class": errors.LogTruncated.__name__, "error_message": message, **stopped}
    if error is None or error.ids.get("bucket") != name:
        return dict.fromkeys(("error_class", "error_message", "stopped_at_offset", "stopped_at_record"))
    at = next((error.ids[key] for key in ("offset", "starting_offset") if error.ids.get(key, "").isdecimal()), None)
    return {
        "error_class": error.error_class,
        "error_message": without_record(error.message),
        "stopped_at_offset": tiered if at is None else int(at),
        "stopped_at_record": error.ids.get(RECORD_ID),
    }


def _places(record: TableRecord, name: str, log: BucketOffsets | None, *, observed: bool) -> dict[str, Any]:
    """Returns how many of the bucket's records are only in the log, in both, and only in the lake; None if offsets cannot tell.

    Offsets cannot tell in three cases: the lake table is not the recorded one (for example after a rollback), a reconciliation left out
    records that the marker counts, or only the ends of another service's commits are known. For a primary-key table the lake has rows
    instead of records: how many of the records that the log no longer has are left is unknown.
    """
    lake = record.lake
    is_another = record.error is not None and record.error.error_class in LAKE_NOT_AS_RECORDED
    is_elsewhere = record.elsewhere is not None
    if is_another or is_elsewhere or not observed or not lake.marker_tells or (lake.starts is None and lake.offsets is not None):
        return dict.fromkeys(("log_only_records", "both_records", "lake_only_records"))
    log_start, log_end = (0, 0) if log is None else (log.log_start, log.log_end)
    is_log_table = record.table_type == TableType.LOG
    tiered = (lake.offsets or {}).get(name, 0)
    start = min((lake.starts or {}).get(name, 0), tiered) if is_log_table else 0
    both = max(0, min(log_end, tiered) - max(log_start, start))
    return {
        "log_only_records": log_end - log_start - both,
        "both_records": both,
        "lake_only_records": tiered - start - both if is_log_table else None,
    }


def _lag(observation: Observation | None, bucket: BucketKey, tiered: TextOffsets | None) -> Lag | None:
    """Returns the lag of only this bucket."""
    if observation is None or bucket not in observation.buckets:
        return None
    alone = Observation(observation.time, {bucket: observation.buckets[bucket]}, observation.oldest_times.get(bucket), observation.tiered)
    return lag_of(alone, tiered)


def _staged(record: TableRecord) -> TextOffsets:
    """Returns the offsets that a granted commit reaches, if it is not known yet whether the commit is in the lake."""
    commit = record.commit
    open_commit = record.granted and commit is not None and commit.state in (CommitState.PREPARED, CommitState.UNKNOWN)
    return commit.offsets if commit is not None and open_commit else {}
