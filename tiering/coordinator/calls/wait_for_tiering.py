"""`CALL sys.wait_for_tiering`: waits until a table's lake copy has certain rows. It requests no round.

These are the rows below given offsets, rows written until a given time, or the rows in the log at the call. As for `tier_table`, only the
lake counts: it has the rows when it passes the base check and its marker has reached them. The call uses no thread, and checks again when a
round of its table ended or a commit was recorded. A read of the lake has a time limit, in case the lake's catalog hangs (`lake_probes`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import lake_table, living_record, table_dropped
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.observing.lake_probes import LakeProbe, Side, SideReporter
from tiering.lake.marker import TieredRange
from tiering.lake.rules.base_check import Base, reaches
from tiering.model.states import TableState
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, TableInfo, TableType, bucket_keys_of
from tiering.procedures.base import Pool, Progress
from tiering.procedures.wait_for_tiering import WaitForTiering, WaitForTieringResult

CHECK_AGAIN_MS = 1_000
"""Pause between reads of a lake or a cluster that does not answer."""


@dataclass(frozen=True)
class _Goal:
    """The goal of a call, for the table with this id: either `until` or `targets`. `since` is a steady time."""

    table_id: int
    since: datetime
    until: datetime | None
    targets: Offsets


@dataclass(frozen=True)
class _LakeState:
    """The state of the lake. `again_at` is when to check again (steady time), even if nothing changes."""

    reached: bool
    lake_snapshot_id: int | None = None
    again_at: datetime | None = None
    problem: str | None = None


async def wait_for_tiering(parts: CallParts, request: WaitForTiering) -> AsyncGenerator[Progress | WaitForTieringResult, None]:
    """Waits for the rows. Raises UnknownTable, UnknownDatabase, LakeDisabled, InvalidArgument, ClusterUnavailable."""
    goal = await parts.threads.run(Pool.LAKE_LOOK, partial(_goal, parts, request))
    line: str | None = None
    with parts.table_records.wake_ups.subscribe() as changes:
        while True:
            before = _signature(parts, goal)
            state = await _probe_in_time(parts, request, goal)
            if state.reached or _is_over(parts, request, goal):
                yield WaitForTieringResult(request.path, state.reached, state.lake_snapshot_id, _waited_ms(parts, goal))
                return
            if (now_line := _line(parts, request, goal, state)) != line:
                line = now_line
                yield Progress(line)
            while before == _signature(parts, goal) and not _is_over(parts, request, goal):
                if parts.table_records.now().passed(state.again_at):
                    break
                await changes.wait()


async def _probe_in_time(parts: CallParts, request: WaitForTiering, goal: _Goal) -> _LakeState:
    """Reads the lake, for at most as long as the call still waits."""
    probe = LakeProbe(request.path, goal.table_id, partial(_lake_state, parts, request, goal))
    try:
        return await parts.probes.within(request.timeout_ms - _waited_ms(parts, goal), probe)
    except errors.TransientTieringError as error:  # the lake did not answer in time
        again_at = parts.table_records.now().after(CHECK_AGAIN_MS)
        return _LakeState(False, living_record(parts, request.path, goal.table_id).shown_snapshot_id, again_at, error.message)


def _waited_ms(parts: CallParts, goal: _Goal) -> int:
    return parts.table_records.now().milliseconds_since(goal.since)


def _is_over(parts: CallParts, request: WaitForTiering, goal: _Goal) -> bool:
    return parts.stopping.is_set() or _waited_ms(parts, goal) >= request.timeout_ms


def _signature(parts: CallParts, goal: _Goal) -> object:
    """Returns everything that can change what the lake has: equal signatures give equal answers."""
    record = parts.table_records.get(goal.table_id)
    if record is None or parts.table_records.fenced is not None:
        return None
    return record.state, record.tiering_epoch, record.shown_snapshot_id, record.shown_offsets


def _line(parts: CallParts, request: WaitForTiering, goal: _Goal, state: _LakeState) -> str:
    """Returns why the lake lacks the rows, as a text."""
    record, now = living_record(parts, request.path, goal.table_id), parts.table_records.now()
    if goal.until is not None and now.wall <= goal.until:
        return f"{request.path}: rows written until {goal.until:%Y-%m-%d %H:%M:%S} UTC may still come"
    if state.problem is not None:
        return f"{request.path}: {state.problem}"
    reason = _reason(record, tierer_connected=parts.tierer_connected())
    return f"{request.path} is {record.state}" + (f": {reason}" if reason else "")


def _reason(record: TableRecord, *, tierer_connected: bool) -> str | None:
    """Returns what blocks the table, if that is more than time."""
    if record.pause is not None:
        return f"it was paused by {record.pause.by}"
    if record.state is TableState.PENDING and not tierer_connected:
        return "no tierer is connected"
    return record.error.message if record.state is TableState.FAILED and record.error is not None else None


def _goal(parts: CallParts, request: WaitForTiering) -> _Goal:
    if request.timestamp is not None and request.offsets is not None:
        raise errors.InvalidArgument("a timestamp and offsets are two goals", hint="Give one, or neither to wait for the present rows.")
    since = parts.table_records.now().steady
    info, _ = lake_table(parts, request.path)
    targets: Offsets = {}
    if request.offsets is not None:
        targets = _checked_offsets(parts, info, request.offsets)
    elif request.timestamp is None:
        targets = {bucket: log.log_end for bucket, log in parts.cluster.offsets(info).items()}
    return _Goal(info.table_id, since, request.timestamp, targets)


def _checked_offsets(parts: CallParts, info: TableInfo, offsets: Mapping[str, int]) -> Offsets:
    """Returns the offsets by bucket. Raises InvalidArgument for an unknown bucket, a negative offset, and an empty mapping."""
    if not offsets:
        raise errors.InvalidArgument("the offsets name no bucket", hint="Omit the argument to wait for the rows in the log now.")
    known_buckets = bucket_keys_of(info, parts.cluster.partitions(info) if info.partition_keys else ())
    example = str(known_buckets[0]) if known_buckets else "0/0"
    targets = {}
    for text, offset in offsets.items():
        try:
            bucket = BucketKey.parse(text)
        except ValueError:
            bucket = None
        if bucket is None or str(bucket) != text or bucket not in known_buckets:
            raise errors.InvalidArgument(
                f"{info.path} has no bucket {text[:60]!r}", hint=f"Name buckets as sys.lake_commits does, such as {example!r}."
            )
        if offset < 0:
            raise errors.InvalidArgument(f"the offset {offset} of bucket {text!r} is negative", hint="Offsets begin at 0.")
        targets[bucket] = offset
    return targets


def _lake_state(parts: CallParts, request: WaitForTiering, goal: _Goal, report_side: SideReporter) -> _LakeState:
    """Reads the lake. A problem of the lake is not raised here: a round reports it, and the call waits."""
    if parts.table_records.fenced is not None:
        raise parts.table_records.fenced
    record, now = living_record(parts, request.path, goal.table_id), parts.table_records.now()
    present = _LakeState(False, record.shown_snapshot_id)
    if goal.until is not None and now.wall <= goal.until:
        return _LakeState(False, record.shown_snapshot_id, again_at=now.after(CHECK_AGAIN_MS))
    try:
        report_side(Side.CLUSTER)
        info = parts.cluster.table(request.path)
        if info.table_id != goal.table_id:
            raise table_dropped(request.path, goal.table_id)
        base = parts.lakes.base(record, info, report_side)
        log = parts.cluster.offsets(info)
        is_reached = _has(parts, info, base, goal, log)
        if is_reached:
            parts.lakes.check_log(info, base, log)
        return _LakeState(is_reached, base.newest)
    except errors.TransientTieringError as error:
        return _LakeState(False, present.lake_snapshot_id, now.after(CHECK_AGAIN_MS), error.message)
    except errors.PermanentTieringError as error:
        return _LakeState(False, present.lake_snapshot_id, problem=error.message)


def _has(parts: CallParts, info: TableInfo, base: Base, goal: _Goal, log: Mapping[BucketKey, BucketOffsets]) -> bool:
    # Records that a log table's log lost at its start are out of reach. A primary-key table's KV snapshot still has them.
    starts = {bucket: offsets.log_start for bucket, offsets in log.items() if info.table_type is TableType.LOG}
    if goal.until is None:
        living = {partition.partition_id for partition in parts.cluster.partitions(info)} if info.partition_keys else ()
        return reaches(base.ranges, goal.targets, starts, living)
    return _has_until(parts, info, {bucket: _tiered(base.ranges, bucket, starts) for bucket in log}, log, goal.until)


def _has_until(
    parts: CallParts, info: TableInfo, tiered: Mapping[BucketKey, int | None], log: Mapping[BucketKey, BucketOffsets], until: datetime
) -> bool:
    """Returns whether the first record of each bucket that the lake lacks was written after `until`.

    A bucket without a known time counts as one that lacks a row. The next round reads past offsets without a record.
    """
    pending: dict[BucketKey, int] = {}
    for bucket, offset in tiered.items():
        if offset is None and log[bucket].log_end > 0:
            return False  # its rows come with a KV snapshot, and their times are unknown
        if offset is not None and offset < log[bucket].log_end:
            pending[bucket] = offset
    if not pending:
        return True
    oldest = parts.cluster.oldest_timestamps(info, pending)
    return all(bucket in oldest and oldest[bucket] > until for bucket in pending)


def _tiered(ranges: Mapping[BucketKey, TieredRange], bucket: BucketKey, starts: Offsets) -> int | None:
    """Returns the next offset that the lake lacks; None for a bucket whose first round begins with a KV snapshot."""
    return ranges[bucket].tiered if bucket in ranges else starts.get(bucket)
