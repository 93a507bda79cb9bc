"""When an upkeep round may begin, how much it rewrites, and when the next one follows. Pure.

Upkeep uses what tiering leaves: a slot that no table waits for, in the time until the table's own next round. Where that time is too short
for the whole rewrite, rounds become smaller.

Where the cluster assigns tables, upkeep runs in our turn, after the tiering round, for a small part of the table's freshness. The cluster
counts the freshness of a table from the end of its turn. So a turn is kept only if upkeep is needed, may begin, and gets a slot soon.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.moment import Moment, milliseconds
from tiering.coordinator.decisions.records import AssignmentEnd, RoundRecord, TableRecord, UpkeepOutcome, UpkeepRecord
from tiering.coordinator.decisions.waits import begin_deadline
from tiering.coordinator.options import CoordinatorOptions
from tiering.counts import counted
from tiering.durations import short_duration
from tiering.errors import Cancelled
from tiering.lake.rules.upkeep.small_files import LEAST_BUDGET_BYTES, REWRITTEN_BYTES_PER_MS
from tiering.model.states import TableState
from tiering.model.upkeep import UPKEEP_ROUND_BYTES, UpkeepOrder

LEAST_ROOM_MS = 2_000
"""Shortest time until the table's next round in which an upkeep round may begin."""

ROOM_SHARE = 0.25
"""Part of a table's freshness that is enough time, if that is less than LEAST_ROOM_MS."""

WORK_SHARE = 0.7
"""Part of the time until its table is due in which an upkeep round may begin rewrites. A round without a grant by then commits nothing."""

REST_MS = 10_000
"""Pause of a table's upkeep after one round that gave way to tiering. It doubles with each further consecutive one."""

LONGEST_GIVEN_WAY_MS = 3_600_000
"""Longest pause after upkeep rounds that gave way to tiering."""

LONGEST_REST_MS = 6 * 3_600_000
"""Longest pause after upkeep rounds that failed or had nothing to do."""


TURN_SHARE, LONGEST_TURN_MS = 0.1, 30_000
"""Upper bounds of the time for which upkeep keeps a table's turn where the cluster assigns tables: a part of the freshness, and an absolute
time. The cluster counts the freshness from the end of the turn."""


def room_ms(now: Moment, record: TableRecord) -> int | None:
    """Returns the milliseconds until the table's next round is due, or until its turn for upkeep ends; None if unknown."""
    deadline = record.upkeep.turn_deadline or begin_deadline(record)
    return None if deadline is None else milliseconds(deadline - now.steady)


def turn_ms(record: TableRecord) -> int:
    """Returns how long a table's turn is kept for upkeep, in milliseconds."""
    return int(min(LONGEST_TURN_MS, record.freshness_ms * TURN_SHARE))


def is_over(now: Moment, record: TableRecord, *, needs_turn: bool) -> bool:
    """Returns whether the running upkeep round has to give way to a round of its own table. `needs_turn`: the cluster assigns tables."""
    deadline = record.upkeep.turn_deadline if needs_turn else begin_deadline(record)
    return record.call is not None or now.passed(deadline)


def least_room_ms(record: TableRecord) -> int:
    """Returns the shortest time until the next round that an upkeep round of the table needs, in milliseconds."""
    return int(min(LEAST_ROOM_MS, record.freshness_ms * ROOM_SHARE))


def within_budget(now: Moment, record: TableRecord, order: UpkeepOrder) -> UpkeepOrder:
    """Returns the order with as many bytes as the round will probably rewrite before its table is due."""
    if not order.rewrite:
        return order
    budget = min(order.budget_bytes, record.upkeep.budget_bytes or order.budget_bytes)
    room = room_ms(now, record)
    if room is not None:
        budget = min(budget, room * REWRITTEN_BYTES_PER_MS)
    return replace(order, budget_bytes=max(budget, min(LEAST_BUDGET_BYTES, order.budget_bytes)))


def longest(now: Moment, record: TableRecord, options: CoordinatorOptions) -> timedelta:
    """Returns for how long an upkeep round may begin rewrites. The time left is for the last rewrite and the commit."""
    room = room_ms(now, record)
    room = max(record.freshness_ms, options.min_round_duration_ms) if room is None else room
    return timedelta(milliseconds=max(int(room * WORK_SHARE), 1))


def next_time(ctx: Context, upkeep: UpkeepRecord, ended: RoundRecord, outcome: UpkeepOutcome, *, gave_way: bool) -> UpkeepRecord:
    """Returns the record with the start and the size of the next upkeep round.

    A round that gave way, or whose work was dropped, was too large: the next one rewrites half as much. A successful round doubles the
    budget, up to the order's own one. A smaller budget does not help a table whose smallest piece of work takes longer than its freshness,
    so the pause doubles, too, with each consecutive round that gave way.
    """
    interval = ctx.options.upkeep_interval_ms
    budget = UPKEEP_ROUND_BYTES if ended.upkeep is None else min(ended.upkeep.budget_bytes, UPKEEP_ROUND_BYTES)
    smaller = max(LEAST_BUDGET_BYTES, budget // 2)
    if gave_way:
        delay = min(LONGEST_GIVEN_WAY_MS, _doubled(REST_MS, upkeep.given_way + 1))
        return replace(upkeep, given_way=upkeep.given_way + 1, budget_bytes=smaller, rest_deadline=ctx.now.after(delay))
    if _was_stopped(ended, outcome):
        return replace(upkeep, rest_deadline=ctx.now.after(REST_MS))
    doubled = 2 * max(budget, upkeep.budget_bytes or 0)
    larger = None if doubled >= UPKEEP_ROUND_BYTES else doubled
    if outcome is UpkeepOutcome.SUCCEEDED:
        follows = ctx.now.after(0 if upkeep.bytes_left else interval)
        done = replace(upkeep, failures=0, idle_rounds=0, given_way=0, budget_bytes=larger)
        return replace(done, next_deadline=follows, rest_deadline=None)
    if outcome is UpkeepOutcome.EMPTY and upkeep.budget_bytes is not None:  # a larger round may find work
        return replace(upkeep, failures=0, budget_bytes=larger, next_deadline=ctx.now.after(interval))
    if outcome is UpkeepOutcome.EMPTY:
        idle = upkeep.idle_rounds + 1
        return replace(upkeep, failures=0, idle_rounds=idle, next_deadline=ctx.now.after(_doubled(interval, idle)))
    if outcome is UpkeepOutcome.CANCELLED:
        return replace(upkeep, next_deadline=ctx.now.after(interval))
    failures = upkeep.failures + 1
    dropped = outcome is UpkeepOutcome.DROPPED
    return replace(
        upkeep,
        failures=failures,
        given_way=0 if dropped else upkeep.given_way,
        budget_bytes=smaller if dropped else upkeep.budget_bytes,
        next_deadline=ctx.now.after(_doubled(REST_MS if dropped else interval, failures)),
        rest_deadline=ctx.now.after(_doubled(REST_MS, failures)) if dropped else None,
    )


def _was_stopped(ended: RoundRecord, outcome: UpkeepOutcome) -> bool:
    """Returns whether the round ended because its tierer stopped, and not because a user cancelled it."""
    return outcome is UpkeepOutcome.CANCELLED and ended.error is not None and ended.error.error_class != Cancelled.__name__


def _doubled(first_ms: int, times: int) -> int:
    return int(min(LONGEST_REST_MS, first_ms * 2 ** min(max(times, 1) - 1, 30)))


def earliest_time(now: Moment, record: TableRecord) -> datetime:
    """Returns when the table's next upkeep round may begin, now or later. A caller's request does not wait for the interval."""
    upkeep = record.upkeep
    deadlines = (upkeep.rest_deadline, None if upkeep.requests else upkeep.next_deadline)
    times = [time for deadline in deadlines if (time := now.to_wall(deadline)) is not None]
    return max([now.wall, *times])


def is_parked(record: TableRecord) -> bool:
    """Returns whether the table failed permanently: only a user or a change of the table helps."""
    return record.state is TableState.FAILED and record.retry_deadline is None


def waits_for(now: Moment, record: TableRecord, *, needs_turn: bool, requested: bool) -> str | None:
    """Returns why no upkeep round of the table begins now, in words; None if one may begin with the next free slot.

    `needs_turn`: the cluster assigns tables. `requested`: a caller wants the round, so it does not wait for the next scheduled upkeep.
    """
    return _pauses(record) or _tiering(now, record, needs_turn=needs_turn) or _times(now, record, requested=requested)


def _pauses(record: TableRecord) -> str | None:
    if record.pause is not None:
        return f"the table is paused by {record.pause.by}"
    pause = record.upkeep.pause
    return None if pause is None else f"its upkeep is paused by {pause.by}" + (f": {pause.reason}" if pause.reason else "")


def _tiering(now: Moment, record: TableRecord, *, needs_turn: bool) -> str | None:
    """Returns the reason in the table's tiering why no upkeep may begin."""
    if is_parked(record) and record.error is not None:
        return f"the table failed permanently ({record.error.error_class}): upkeep continues when its tiering does"
    if record.state is TableState.FAILED:
        return "the table failed and waits for its next round"
    if record.upkeep_runs and record.running is not None:
        return f"upkeep round {record.running.round_id} runs"
    if record.state is not TableState.SCHEDULED:
        return "a tiering round of the table runs or waits for a tierer"
    if record.consecutive_failures:
        return "its latest round failed, and the next one has to succeed first"
    if record.unresolved_commit:
        return "it is not known yet whether its latest commit is in the lake: its next round finds out"
    if record.commit is not None and not record.commit.state.is_resolved:
        return "the cluster has not been told of its latest commit yet"
    if record.lake.snapshot_id is None:
        return "there is no lake table yet"
    if record.call is not None:
        return "a CALL waits for a tiering round"
    if needs_turn and not record.has_turn:
        return "the cluster has not assigned the table to this service"
    room = room_ms(now, record)
    if room is not None and room < least_room_ms(record) and not needs_turn:
        return f"its next round begins in {short_duration(room)}"
    return None


def _times(now: Moment, record: TableRecord, *, requested: bool) -> str | None:
    upkeep = record.upkeep
    if upkeep.rest_deadline is not None and not now.passed(upkeep.rest_deadline):
        time_left = _time_left(now, upkeep.rest_deadline)
        if upkeep.given_way > 1:
            return f"{upkeep.given_way} upkeep rounds in a row gave way to tiering before their commit: the next one begins in {time_left}"
        return f"it pauses for {time_left} after a round that gave way to tiering or lost a commit conflict"
    if requested or upkeep.next_deadline is None or now.passed(upkeep.next_deadline):
        return None
    time_left = _time_left(now, upkeep.next_deadline)
    if upkeep.failures:
        rounds = counted(upkeep.failures, "upkeep round")
        return f"{rounds} in a row failed or lost a commit conflict: the next one begins in {time_left}"
    if upkeep.idle_rounds:
        return f"its latest upkeep round found nothing to change: the next one begins in {time_left}"
    return f"its latest upkeep was recent: the next one begins in {time_left}"


def _time_left(now: Moment, deadline: datetime) -> str:
    return short_duration(milliseconds(deadline - now.steady))


def keep_turn(ctx: Context, before: TableRecord, change: Change) -> Change:
    """Keeps the turn that a tiering round ended, if upkeep should follow. `before` is the record while the round ran."""
    record = change.record
    ended = record.assignment is not None and record.assignment.end is AssignmentEnd.FINISHED
    if not ended or not before.has_turn:
        return _without_deadline(change)
    kept = replace(record, assignment=before.assignment, upkeep=replace(record.upkeep, turn_deadline=ctx.now.after(turn_ms(record))))
    requested = bool(record.upkeep.requests)
    if not (requested or record.upkeep.is_needed) or waits_for(ctx.now, kept, needs_turn=True, requested=requested) is not None:
        return _without_deadline(change)
    return replace(change, record=kept)


def end_kept_turn(ctx: Context, change: Change) -> Change | None:
    """Ends a turn that was kept for upkeep once its time is over; None if it is not over."""
    record = change.record
    if not ctx.now.passed(record.upkeep.turn_deadline):
        return None
    if record.assignment is None or not record.has_turn or record.unresolved_commit:
        return _without_deadline(change)
    return _without_deadline(change.update(assignment=replace(record.assignment, end=AssignmentEnd.FINISHED)))


def _without_deadline(change: Change) -> Change:
    upkeep = change.record.upkeep
    return change if upkeep.turn_deadline is None else change.update(upkeep=replace(upkeep, turn_deadline=None))
