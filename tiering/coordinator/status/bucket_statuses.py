"""How far the lake is with each bucket of a table: the log as last observed, beside what is on record of the lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from tiering.coordinator.decisions.records import CommitState, TableRecord, TextOffsets, from_text
from tiering.coordinator.observing.lag import Lag, Observation, lag_of
from tiering.model.buckets import BucketStatus
from tiering.model.tables import BucketKey


def bucket_statuses(
    record: TableRecord, observation: Observation | None, now: datetime, partition_names: Callable[[], Mapping[int, str]]
) -> Iterator[BucketStatus]:
    """One status a bucket that the log has, or of which the lake has rows; by partition and bucket.

    `partition_names` is asked if there are partitions: the cluster lists them.
    """
    log = {} if observation is None else observation.buckets
    lake = from_text(record.lake.offsets or {})
    buckets = sorted({*log, *lake}, key=BucketKey.sort_key)
    names = partition_names() if any(bucket.partition_id is not None for bucket in buckets) else {}
    backlog, staged = record.lake.backlog, _staged(record)
    for bucket in buckets:
        name, offsets, lag = str(bucket), log.get(bucket), _lag(observation, bucket, record.lake.offsets)
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
            is_backlog=None if backlog is None else name in backlog,
            offsets_observed_time=None if observation is None else observation.time,
        )


def _lag(observation: Observation | None, bucket: BucketKey, tiered: TextOffsets | None) -> Lag | None:
    """The lag of this bucket alone."""
    if observation is None or bucket not in observation.buckets:
        return None
    alone = Observation(observation.time, {bucket: observation.buckets[bucket]}, observation.oldest_times.get(bucket), observation.tiered)
    return lag_of(alone, tiered)


def _staged(record: TableRecord) -> TextOffsets:
    """Offsets that a granted commit reaches of which it is not known yet whether the lake has it."""
    commit = record.commit
    open_commit = record.granted and commit is not None and commit.state in (CommitState.PREPARED, CommitState.UNKNOWN)
    return commit.offsets if commit is not None and open_commit else {}
