"""Checks whether a log is the one that was tiered, and whether it still has the next record to tier. Pure (DESIGN 6 step 3).

A log that can be rewritten (`RewritableLogs`) leaves a trace of the last tiered record of each bucket in the marker. The next round
compares it with the record that is there now: a log that was cut and has grown again has other records at the same offsets.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tiering.counts import counted
from tiering.errors import InvalidArgument, LogBehindLake, LogRewritten, LogTruncated, SourceChanged
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.rules.hints import new_table_hint, reconcile_call, tier_call
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, Partition, TableInfo, TableType, with_other_buckets

Traces = Mapping[tuple[BucketKey, int], str]
"""Traces by (bucket, offset): a text that identifies the last record below that offset."""

NAMED_GAPS = 10
"""Number of buckets whose gaps an error names one by one. A message has at most 2,048 characters."""


def check_bucket_counts(table: TableInfo, partitions: Iterable[Partition]) -> None:
    """Raises InvalidArgument if a partition has another number of buckets than its table (Fluss 1.0), and the buckets are chosen by a key.

    A lake table has one number of buckets for the rows of a key. Without bucket keys no row has to be in a certain bucket.
    """
    other = with_other_buckets(table, partitions)
    if other is None or not (table.bucket_keys or table.primary_key):
        return
    raise InvalidArgument(
        f"the partition {other.partition_name!r} of {table.path} has {other.bucket_count} buckets, but the table has {table.bucket_count}: "
        "its lake table has one number of buckets for all partitions",
        hint=f"Set 'bucket.num' of the table back to {other.bucket_count} in Fluss, or drop the partition. Then {tier_call(table.path)}. "
        "Nothing was lost: the log keeps what the lake lacks.",
        table_path=table.path,
        partition=other.partition_name,
    )


@dataclass(frozen=True)
class LogGap:
    """Records `[start, stop)` of a bucket that the lake lacks and that the log no longer has. `partition_name` None = no partition."""

    bucket: BucketKey
    partition_name: str | None
    start: int
    stop: int

    @property
    def records(self) -> int:
        """Upper bound of the records, because an offset may have none."""
        return self.stop - self.start

    @property
    def place(self) -> str:
        """Names the bucket, and its partition if there is one."""
        return f"bucket {self.bucket}" if self.partition_name is None else f"bucket {self.bucket} (partition {self.partition_name!r})"

    def in_words(self) -> str:
        """Returns which records are missing."""
        return f"records {self.start} to {self.stop - 1} are in neither"


def log_gaps(
    tiered: Mapping[BucketKey, int], log: Mapping[BucketKey, BucketOffsets], names: Mapping[int | None, str | None]
) -> tuple[LogGap, ...]:
    """Returns the gaps between lake and log, by bucket. `names`: the living partitions by id, and None for a table without partitions."""
    cut = [bucket for bucket, at in tiered.items() if bucket in log and bucket.partition_id in names and at < log[bucket].log_start]
    return tuple(
        LogGap(bucket, names[bucket.partition_id], tiered[bucket], log[bucket].log_start) for bucket in sorted(cut, key=BucketKey.sort_key)
    )


def check_gaps(table: TableInfo, gaps: Sequence[LogGap]) -> None:
    """Raises LogTruncated with all gaps, and what can be done about them."""
    if not gaps:
        return
    first, records = gaps[0], counted(sum(gap.records for gap in gaps), "record")
    if len(gaps) == 1:
        message = (
            f"{first.place} of {table.path}: the lake is tiered up to offset {first.start}, but the log now starts at {first.stop}: "
            f"{first.in_words()} ({records})"
        )
    else:
        named = "; ".join(f"{gap.place}: records {gap.start} to {gap.stop - 1}" for gap in gaps[:NAMED_GAPS])
        others = f"; and {counted(len(gaps) - NAMED_GAPS, 'bucket')} more" if len(gaps) > NAMED_GAPS else ""
        message = (
            f"the log of {counted(len(gaps), 'bucket')} of {table.path} now starts behind the records that the lake has: {records} are in "
            f"neither: {named}{others}"
        )
    raise LogTruncated(message, hint=_without_the_missing(table), table_path=table.path, bucket=first.bucket)


def check_reachable(table: TableInfo, bucket: BucketKey, tiered: int, log: BucketOffsets) -> None:
    """Raises LogTruncated or LogBehindLake if a log with the records `[log_start, log_end)` does not have offset `tiered` next."""
    check_gaps(table, log_gaps({bucket: tiered}, {bucket: log}, {bucket.partition_id: None}))
    check_not_behind(table, bucket, tiered, log)


def check_not_behind(table: TableInfo, bucket: BucketKey, tiered: int, log: BucketOffsets) -> None:
    """Raises LogBehindLake if the log ends before offset `tiered`."""
    if tiered > log.log_end:
        raise LogBehindLake(
            f"bucket {bucket} of {table.path}: the lake is tiered up to offset {tiered}, but the log ends at {log.log_end}",
            hint="The cluster lost records that were tiered already, or was restored from an older copy: restore its newest state, then "
            f"{tier_call(table.path)}. Or: {new_table_hint(table.path)}",
            table_path=table.path,
            bucket=bucket,
        )


def _without_the_missing(table: TableInfo) -> str:
    """Returns how tiering can continue without the missing changes. In a log table it continues behind the gap. In a primary-key table the
    buckets begin again with their KV snapshots, because otherwise keys would stay whose deletion is among the missing changes."""
    parked = "Until then the table keeps its lake copy, and no round runs."
    if table.table_type is TableType.PRIMARY_KEY:
        retier = reconcile_call(table.path, "retier")
        refused = ", unless they may hold rows of a dropped partition of the same name" if table.partition_keys else ""
        return f"{retier} fills these buckets again from their KV snapshots{refused}. {parked} Or: {new_table_hint(table.path)}"
    accept = reconcile_call(table.path, "accept")
    return (
        f"The missing records cannot be tiered any more. To continue without them: {accept}; the column records_left_out says how many "
        f"they are. {parked}"
    )


def check_same_log(table: TableInfo, tiered: Mapping[BucketKey, TieredRange], marker: Marker | None, traces: Traces) -> None:
    """Raises LogRewritten if the log has another record than the marker's trace at the end of a tiered bucket.

    A bucket without a trace in the marker or in the log passes: retention removed the record, or another service tiered it.
    """
    if marker is not None and (rewritten := rewritten_ends(tiered, marker, traces)):
        bucket, reached = next(iter(rewritten.items()))
        raise log_rewritten(table, bucket, reached)


def rewritten_ends(tiered: Mapping[BucketKey, TieredRange], marker: Marker, traces: Traces) -> dict[BucketKey, int]:
    """Returns the buckets in which the last tiered record was replaced by another one, in their order, with the offset after that
    record."""
    ends: dict[BucketKey, int] = {}
    for bucket, trace in sorted(marker.traces.items(), key=lambda entry: entry[0].sort_key()):
        reached = marker.buckets[bucket].tiered if bucket in marker.buckets else 0
        if bucket in tiered and tiered[bucket].tiered == reached and traces.get((bucket, reached), trace) != trace:
            ends[bucket] = reached
    return ends


def log_rewritten(table: TableInfo, bucket: BucketKey, reached: int) -> LogRewritten:
    """Returns the error for a bucket in which the record before offset `reached` is not the one that was tiered."""
    return LogRewritten(
        f"bucket {bucket} of {table.path}: the record at offset {reached - 1} is not the one that was tiered: the cluster lost "
        "records and wrote others at their offsets",
        hint=_over_the_rewritten(table, reached),
        table_path=table.path,
        bucket=bucket,
    )


def kept_ends(tiered: Mapping[BucketKey, TieredRange], log: Mapping[BucketKey, BucketOffsets], buckets: Container[BucketKey]) -> Offsets:
    """Returns the next offset to tier of each bucket in the lake whose log still has the record before that offset."""
    return {
        bucket: reached.tiered
        for bucket, reached in tiered.items()
        if bucket in buckets and bucket in log and log[bucket].log_start < reached.tiered <= log[bucket].log_end
    }


def begins_late(tiered: Mapping[BucketKey, TieredRange], ends: Mapping[BucketKey, BucketOffsets]) -> bool:
    """Returns whether a bucket that was never tiered begins above offset 0: records that a log lacks at its start are never tiered."""
    return any(bucket not in tiered and log.log_start > 0 for bucket, log in ends.items())


def kept_traces(buckets: Mapping[BucketKey, TieredRange], traces: Traces) -> dict[BucketKey, str]:
    """Returns the traces that belong to a marker with these buckets."""
    return {bucket: traces[bucket, reached.tiered] for bucket, reached in buckets.items() if (bucket, reached.tiered) in traces}


def witnesses_of(buckets: Mapping[BucketKey, TieredRange], traces: Traces) -> Offsets:
    """Returns witnesses for buckets without a trace at their end: the offset of the first trace after the end.

    As long as the witness is the same record, all records before it are the same, too, because a log is cut at its end.
    """
    last = dict(sorted(traces, key=lambda place: place[1]))
    return {
        bucket: last[bucket]
        for bucket, reached in buckets.items()
        if (bucket, reached.tiered) not in traces and last.get(bucket, 0) > reached.tiered > 0
    }


def confirmed_traces(table: TableInfo, witnesses: Offsets, before: Traces, now: Traces) -> dict[tuple[BucketKey, int], str]:
    """Returns the traces of `now` whose bucket's witness is the same as in `before`. A witness that no longer exists confirms nothing.

    Raises SourceChanged if the witness is another record: records that were read may come from the log before it was cut.
    """
    for bucket, offset in witnesses.items():
        if now.get((bucket, offset), before[bucket, offset]) != before[bucket, offset]:
            raise _source_changed(table, bucket)
    return {place: trace for place, trace in now.items() if (place[0], witnesses[place[0]]) in now}


def check_unchanged(table: TableInfo, before: Traces, now: Traces) -> None:
    """Raises SourceChanged if a record of `before` is another one in `now`, or no longer exists."""
    for (bucket, offset), trace in before.items():
        if now.get((bucket, offset)) != trace:
            raise _source_changed(table, bucket)


def _source_changed(table: TableInfo, bucket: BucketKey) -> SourceChanged:
    return SourceChanged(
        f"bucket {bucket} of {table.path}: the cluster lost records and wrote others at their offsets while the round read them",
        table_path=table.path,
        bucket=bucket,
    )


def _over_the_rewritten(table: TableInfo, reached: int) -> str:
    """Returns how tiering can continue if the lake has records that the log lost, and lacks the records that the log has instead."""
    new_table = (
        f"No row is lost with a new lake table beside this one: {new_table_hint(table.path)} Rows that only the former one has can be "
        "written to the source table again (docs/deploy.md)."
    )
    if table.table_type is TableType.PRIMARY_KEY:
        return new_table
    accept = reconcile_call(table.path, "accept")
    keep = f"To keep the present one and continue at offset {reached}, without the records that were written below it since: {accept}."
    return f"{new_table} {keep}"
