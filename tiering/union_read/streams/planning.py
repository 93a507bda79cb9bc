"""Plans the batches of a stream over plain values: where it begins, where the next batch ends, and the rows of a batch. Pure.

The lake part is read in whole files, then the log in ranges. Every row is between exactly two offsets that follow each other, whatever
the sizes of the batches are. A record that the log no longer has is an error and never skipped.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tiering.errors import InvalidArgument, LogBehindLake, LogTruncated, SourceChanged, TableMismatch
from tiering.model.schema.field_ids import children, identity
from tiering.model.tables import BucketKey, BucketOffsets, TableInfo
from tiering.union_read.streams.offsets import RESTART_HINT, LakePart, StreamOffset

EARLIEST, LATEST = "earliest", "latest"
"""Values of `startingOffsets`. Earliest: the lake copy and then the log."""

LOG_START, LOG_END = -2, -1
"""Offsets in the JSON of `startingOffsets` that mean the present start or end of a bucket's log, as in Spark's Kafka source."""

JSON_HINT = (
    'Write JSON with all buckets, such as {"0": 1200, "1": -2}. -2 is the start of the log, -1 its end; "17/0": bucket 0 of partition 17.'
)

MAX_VANISHED = 10_000
"""Upper bound of the buckets in `StreamOffset.vanished`, because an offset must not grow for ever. A list that is out of date lacks the
partitions that were created last, so buckets of the highest partition ids stay."""

Log = Mapping[BucketKey, BucketOffsets]
"""The log of the existing buckets."""


@dataclass(frozen=True)
class BatchLimit:
    """How far a batch may go. `max_records` None = without a limit. `last`: the end of the stream; None = the stream has no end."""

    max_records: int | None = None
    last: StreamOffset | None = None


@dataclass(frozen=True)
class Batch:
    """The rows of one batch: the lake files `[files[0], files[1])` of a snapshot in their order, and ranges of the log."""

    lake: LakePart | None
    files: tuple[int, int]
    ranges: Mapping[BucketKey, tuple[int, int]]


def begin_at(table: TableInfo, starting_offsets: str, log: Log) -> StreamOffset:
    """Returns where a stream begins that reads no lake copy: `latest`, or JSON of offsets per bucket. Raises InvalidArgument."""
    if starting_offsets == LATEST:
        return StreamOffset(table.table_id, {bucket: ends.log_end for bucket, ends in log.items()}, schema_id=table.schema_id)
    offsets = _named_offsets(starting_offsets)
    if offsets.keys() != log.keys():
        missing, unknown = (_names(keys) for keys in (log.keys() - offsets.keys(), offsets.keys() - log.keys()))
        problem = f"lacks the buckets {missing}" if missing else f"names buckets that do not exist: {unknown}"
        raise InvalidArgument(f"`startingOffsets` of the stream of {table.path} {problem}", hint=JSON_HINT, table_path=table.path)
    buckets = {bucket: _resolved(table, bucket, offsets[bucket], ends) for bucket, ends in log.items()}
    return StreamOffset(table.table_id, buckets, schema_id=table.schema_id)


def _named_offsets(text: str) -> dict[BucketKey, int]:
    try:
        named = {BucketKey.parse(key): value for key, value in json.loads(text).items()}
    except (ValueError, AttributeError, RecursionError):
        named = {}
    if not named or any(type(value) is not int for value in named.values()):
        message = f"`startingOffsets` of a stream is {EARLIEST}, {LATEST} or JSON, not {text[:200]!r}"
        raise InvalidArgument(message, hint=JSON_HINT)
    return named


def _resolved(table: TableInfo, bucket: BucketKey, offset: int, ends: BucketOffsets) -> int:
    named = {LOG_START: ends.log_start, LOG_END: ends.log_end}.get(offset, offset)
    if not ends.log_start <= named <= ends.log_end:
        raise InvalidArgument(
            f"`startingOffsets` names offset {offset} of bucket {bucket} of {table.path}, but its log has the offsets "
            f"{ends.log_start} to {ends.log_end}",
            hint=JSON_HINT,
            table_path=table.path,
            bucket=bucket,
        )
    return named


def _names(buckets: Collection[BucketKey]) -> str:
    return ", ".join(str(bucket) for bucket in sorted(buckets, key=BucketKey.sort_key)[:10])


def check_same_columns(table: TableInfo, former: pa.Schema, columns: Sequence[str]) -> None:
    """Raises SourceChanged if one of `columns` now is another column than the one of that name in `former`, or has another one in it."""
    for name in columns:
        before, present = former.get_field_index(name), table.schema.get_field_index(name)
        if before >= 0 and present >= 0 and not _is_same_field(former.field(before), table.schema.field(present)):
            raise SourceChanged(
                f"the column {name!r} of {table.path} is another column than the one of that name when the stream began",
                hint=RESTART_HINT,
                table_path=table.path,
                column=name,
            )


def _is_same_field(before: pa.Field[Any], present: pa.Field[Any]) -> bool:
    fields = {field.name: field for field in children(present.type)}
    pairs = [(field, fields[field.name]) for field in children(before.type) if field.name in fields]
    return identity(before) == identity(present) and all(_is_same_field(*pair) for pair in pairs)


def check_continues(table: TableInfo, start: StreamOffset, log: Log, *, fail_on_data_loss: bool) -> None:
    """Raises an error if the log does not have all records after `start`.

    Raises TableMismatch (the table was recreated), LogTruncated (the log starts behind the offset; or, with `fail_on_data_loss`, the
    partition was dropped), LogBehindLake (the log ends before the offset).
    """
    check_same_table(table, start)
    for bucket in sorted({*start.buckets, *log}, key=BucketKey.sort_key):
        offset = start.next_in(bucket)
        if bucket in log:
            _check_reachable(table, bucket, offset, log[bucket])
        elif fail_on_data_loss:
            raise LogTruncated(
                f"the partition of bucket {bucket} of {table.path} was dropped, and the stream had read the bucket up to offset {offset}: "
                "later records are lost",
                hint="To continue without them, set failOnDataLoss=false.",
                table_path=table.path,
                bucket=bucket,
            )


def check_same_table(table: TableInfo, start: StreamOffset) -> None:
    """Raises TableMismatch if the offset belongs to another table of this name."""
    if start.table_id != table.table_id:
        raise TableMismatch(
            f"{table.path} was dropped and created again: the stream began with the table id {start.table_id}, now it is {table.table_id}",
            hint=RESTART_HINT,
            table_path=table.path,
        )


def _check_reachable(table: TableInfo, bucket: BucketKey, offset: int, ends: BucketOffsets) -> None:
    if offset < ends.log_start:
        raise LogTruncated(
            f"bucket {bucket} of {table.path}: the stream has read up to offset {offset}, but the log now starts at {ends.log_start}: "
            f"records {offset} to {ends.log_start - 1} were not read and are no longer in the log",
            hint=f"The lake copy has them, if they were tiered. {RESTART_HINT}",
            table_path=table.path,
            bucket=bucket,
        )
    if offset > ends.log_end:
        raise LogBehindLake(
            f"bucket {bucket} of {table.path}: the stream has read up to offset {offset}, but the log ends at {ends.log_end}",
            hint=f"The cluster lost records that the stream has read, or was restored from an older copy. {RESTART_HINT}",
            table_path=table.path,
            bucket=bucket,
        )


def next_offset(start: StreamOffset, log: Log, file_records: Sequence[int], limit: BatchLimit) -> StreamOffset:
    """Returns where the batch ends that begins at `start`; equal to `start` if there is nothing new.

    `file_records`: the number of records of each lake file that the stream has not read yet, in order. A batch has at least one file of
    them, and reads the log only after the last one. Buckets that are not in `log` any more are in `vanished` of the end.
    """
    files = _files_of_batch(file_records, limit.max_records)
    if start.lake is not None and files < len(file_records):
        return replace(start, lake=replace(start.lake, files_done=start.lake.files_done + files), begin=None)
    records = None if limit.max_records is None else max(0, limit.max_records - sum(file_records))
    backlogs = {bucket: _backlog(bucket, start, ends, limit.last) for bucket, ends in log.items()}
    read = backlogs if records is None else divided(backlogs, records)
    before = {**start.vanished, **start.buckets}
    ends = {bucket: start.next_in(bucket) + read[bucket] for bucket in log if bucket in before or read[bucket]}
    vanished = sorted(before.keys() - log.keys(), key=BucketKey.sort_key)[-MAX_VANISHED:]
    return StreamOffset(start.table_id, ends, vanished={bucket: before[bucket] for bucket in vanished}, schema_id=start.schema_id)


def _files_of_batch(file_records: Sequence[int], max_records: int | None) -> int:
    """Returns the number of files in a batch: as many as the limit allows, at least one."""
    total = 0
    for number, records in enumerate(file_records):
        total += records
        if max_records is not None and total > max_records:
            return max(1, number)
    return len(file_records)


def _backlog(bucket: BucketKey, start: StreamOffset, ends: BucketOffsets, last: StreamOffset | None) -> int:
    stop = ends.log_end if last is None else min(ends.log_end, last.next_in(bucket))
    return max(0, stop - start.next_in(bucket))


def divided(backlogs: Mapping[BucketKey, int], records: int) -> dict[BucketKey, int]:
    """Divides `records` over the buckets by their backlogs. If there are enough, each bucket with a backlog has at least one.

    Returns no more than the backlog of each bucket, and `records` in total if the backlogs have so many.
    """
    waiting = {bucket: backlog for bucket, backlog in backlogs.items() if backlog}
    total = sum(waiting.values())
    if total <= records:
        return dict(backlogs)
    base = 1 if len(waiting) <= records else 0
    pool, total = records - base * len(waiting), total - base * len(waiting)
    shares, before = dict.fromkeys(backlogs, 0), 0
    for bucket in sorted(waiting, key=BucketKey.sort_key):
        after = before + waiting[bucket] - base
        shares[bucket] = base + after * pool // total - before * pool // total
        before = after
    return shares


def batch_between(start: StreamOffset | None, end: StreamOffset) -> Batch:
    """Returns what the batch from `start` to `end` reads. `start` None: the batch is the first of its stream.

    Raises InvalidArgument if the offsets do not follow each other.
    """
    begin = start or end.begin
    if begin is None:
        raise InvalidArgument("the first batch of a stream does not say where the stream began", hint=RESTART_HINT)
    files = (0, 0) if begin.lake is None else (begin.lake.files_done, begin.lake.files if end.lake is None else end.lake.files_done)
    ranges = {bucket: (begin.next_in(bucket), stop) for bucket, stop in end.buckets.items()}
    same_lake = end.lake is None or (begin.lake is not None and replace(begin.lake, files_done=end.lake.files_done) == end.lake)
    if begin.table_id != end.table_id or not same_lake or files[0] > files[1] or any(first > stop for first, stop in ranges.values()):
        raise InvalidArgument("the offsets of a batch do not follow each other", hint=RESTART_HINT)
    return Batch(begin.lake, files, {bucket: bounds for bucket, bounds in ranges.items() if bounds[0] < bounds[1]})
