"""The backlog of a table: what was already in the log when reading of its buckets began (FLIP-309).

A backlog starts for a new table, for a table whose lake was enabled again or was reconciled to earlier offsets, and after a long outage.
The start waits for the next plan. The plan reads the ends of the log, which become the backlog offsets of the buckets that the start
covers. A partition that appears later is not covered by any start.

The backlog of a bucket ends once per start, when the lake has passed its offset. The event BACKLOG_FINISH is written together with that
change. The table's backlog ends with its last bucket. No restart, lost answer or fenced round repeats these events, because the record
shows which of them were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import LakeState, Level, TableRecord, TextOffsets, from_text
from tiering.coordinator.options import CoordinatorOptions
from tiering.counts import counted
from tiering.model.rounds import RoundMode
from tiering.model.splits import AssignedBacklog, BacklogCause, BacklogStart
from tiering.model.tables import BucketKey

RESET_AFTER_FRESHNESSES = 10
"""Without an option of the coordinator, a table has a backlog after this many times its freshness without tiering."""

PLAN_MS = 10_000
"""A round that has no plan after this time waits for a cluster or a lake that hangs. It reads no backlog, and its tierer has given its slot
to another table."""

_WORDS: Mapping[BacklogCause, str] = {
    BacklogCause.FIRST: "the table is new here",
    BacklogCause.ENABLED: "its lake was enabled again",
    BacklogCause.RETIERED: "its lake went back",
    BacklogCause.OUTAGE: "it was not tiered for long, and rows wait",
}


def is_backlog(record: TableRecord) -> bool | None:
    """Returns whether tiering works through a backlog; None before the first round has read the log."""
    lake = record.lake
    if lake.backlog_start is not None or lake.backlog:
        return True
    return None if lake.backlog is None and record.last_checked_time is None else False


def runs_for_throughput(record: TableRecord) -> bool:
    """Returns whether the next round of the table will be one of a backlog, as far as is known before its plan."""
    lake = record.lake
    return lake.backlog is None or bool(lake.backlog) or lake.backlog_start is not None


def takes_backlog_slot(record: TableRecord, now: Moment) -> bool:
    """Returns whether the running round reads a backlog, or is about to."""
    if record.running is None or record.upkeep_runs or not runs_for_throughput(record):
        return False
    since = record.checked_since
    return record.running.mode is not None or since is None or now.milliseconds_since(since) <= PLAN_MS


def assigned_backlog(record: TableRecord) -> AssignedBacklog:
    """Returns the backlog that the assignment of the table's next round contains."""
    lake, start = record.lake, record.lake.backlog_start
    touched = None
    if lake.backlog is not None and start is not None and start.buckets is not None:
        touched = frozenset(BucketKey.parse(bucket) for bucket in start.buckets)
    return AssignedBacklog(from_text(lake.backlog or {}), lake.backlog is None or start is not None, touched)


def start_anew(change: Change, ctx: Context, cause: BacklogCause, buckets: tuple[str, ...] | None = None) -> Change:
    """Starts the backlog of these buckets, or of all, with the next plan. A waiting start that covers more buckets keeps them."""
    lake = change.record.lake
    waiting = lake.backlog_start
    if waiting is not None and buckets is not None:
        buckets = None if waiting.buckets is None else tuple(sorted({*waiting.buckets, *buckets}))
    started = change.update(lake=replace(lake, backlog_start=BacklogStart(cause, ctx.now.wall, buckets)))
    return _switched(started, ctx, lake, _WORDS[cause])


def start_after_outage(ctx: Context, record: TableRecord) -> Change | None:
    """Starts a backlog for a table with waiting rows that was not tiered for `backlog_reset_after_ms`; None if it was."""
    if record.running is not None or record.lake.backlog_start is not None or not had_outage(record, ctx.now.wall, ctx.options):
        return None
    return start_anew(Change(record), ctx, BacklogCause.OUTAGE)


def had_outage(record: TableRecord, now: datetime, options: CoordinatorOptions) -> bool:
    """Returns whether the table was not tiered, checked or started for longer than `reset_after`. A never tiered table has no outage."""
    observed_times = (record.last_tiered_time, record.last_checked_time, record.lake.backlog_start_time)
    latest = max((time for time in observed_times if time is not None), default=None)
    return latest is not None and record.lake.backlog is not None and now - latest > reset_after(record, options)


def reset_after(record: TableRecord, options: CoordinatorOptions) -> timedelta:
    """Returns how long a table may be left alone before its waiting rows are a backlog."""
    return timedelta(milliseconds=options.backlog_reset_after_ms or RESET_AFTER_FRESHNESSES * record.freshness_ms)


def begin_planned(change: Change, ctx: Context, stops: TextOffsets) -> Change:
    """Returns the change with the backlog of a round that planned to read up to `stops`, the ends of all existing buckets.

    A start that waits, or one after an outage that was not noticed before, begins with the buckets that it covers and that have something
    to read. It replaces what an earlier start began for them. A bucket that no longer exists has no backlog. A repeat changes nothing.
    """
    tiered = change.record.lake.offsets or {}
    waiting = {bucket: stop for bucket, stop in stops.items() if stop > tiered.get(bucket, 0)}
    backlog = change.record.lake.backlog or {}
    change = _finish(change, ctx, {bucket: stop for bucket, stop in backlog.items() if bucket not in stops}, in_lake=False)
    if waiting and change.record.lake.backlog_start is None and had_outage(change.record, ctx.now.wall, ctx.options):
        change = start_anew(change, ctx, BacklogCause.OUTAGE)
    before = change.record.lake
    if before.backlog is not None and before.backlog_start is None:
        return change
    start = before.backlog_start or BacklogStart(BacklogCause.FIRST, ctx.now.wall)
    started = {bucket: stop for bucket, stop in waiting.items() if before.backlog is None or start.touches(bucket)}
    lake = replace(before, backlog={**(before.backlog or {}), **started}, backlog_start=None, backlog_start_time=ctx.now.wall)
    if started:
        lake = replace(lake, backlog_starts=before.backlog_starts + 1)
        records = sum(stop - tiered.get(bucket, 0) for bucket, stop in started.items())
        at_most = "" if started.keys() <= tiered.keys() else "at most "  # a plan does not say where the log of a new bucket starts
        details = {"start": lake.backlog_starts, "cause": start.cause.value, "buckets": len(started), "records": records}
        waits = "waits" if records == 1 else "wait"
        message = f"{at_most}{counted(records, 'record')} of {counted(len(started), 'bucket')} {waits}: {_WORDS[start.cause]}"
        change = change.note(ctx, "BACKLOG_BEGIN", message, Level.INFO, **details)
    return _switched(change.update(lake=lake), ctx, before, _WORDS[start.cause] if started else "nothing waits")


def finish_passed(change: Change, ctx: Context, tiered: TextOffsets) -> Change:
    """Ends the backlog of each bucket that the lake holds completely. A bucket that is missing in `tiered` has not been read yet."""
    backlog = change.record.lake.backlog or {}
    return _finish(change, ctx, {bucket: stop for bucket, stop in backlog.items() if tiered.get(bucket, -1) >= stop})


def finish_all(change: Change, ctx: Context) -> Change:
    """Ends the backlog of a table whose round found nothing to do: the lake has everything."""
    before = change.record.lake
    if before.backlog is not None and not before.backlog and before.backlog_start is None:
        return change
    finished = _finish(change, ctx, before.backlog or {}, in_lake=False)
    lake = replace(finished.record.lake, backlog={}, backlog_start=None)
    if before.backlog_start is not None:
        lake = replace(lake, backlog_start_time=ctx.now.wall)
    return _switched(finished.update(lake=lake), ctx, finished.record.lake, "nothing waits")


def _finish(change: Change, ctx: Context, finished: TextOffsets, *, in_lake: bool = True) -> Change:
    """Adds one event per bucket, and the event of a mode switch. `in_lake` False: the partition was dropped together with its records."""
    before = change.record.lake
    if not finished:
        return change
    remaining = {bucket: stop for bucket, stop in (before.backlog or {}).items() if bucket not in finished}
    change = change.update(lake=replace(before, backlog=remaining))
    for bucket, stop in finished.items():
        details = {"bucket": bucket, "backlog_offset": stop, "start": before.backlog_starts}
        how = "the lake has" if in_lake else "nothing is left to read of"
        message = f"{how} the backlog of bucket {bucket}, which ended at offset {stop}"
        change = change.note(ctx, "BACKLOG_FINISH", message, Level.INFO, **details)
    return _switched(change, ctx, before, "the lake has the backlog of all buckets" if in_lake else "nothing of it is left to read")


def _switched(change: Change, ctx: Context, before: LakeState, why: str) -> Change:
    """Adds an event to the change if the purpose of the table's rounds changes."""
    was, becomes = _mode(before), _mode(change.record.lake)
    if was is becomes:
        return change
    purpose = "for throughput" if becomes is RoundMode.BACKLOG else "for freshness"
    return change.note(ctx, f"MODE_{becomes.value}", f"rounds are {purpose} now: {why}", mode=becomes.value)


def _mode(lake: LakeState) -> RoundMode:
    return RoundMode.BACKLOG if lake.backlog or lake.backlog_start is not None else RoundMode.LIVE
