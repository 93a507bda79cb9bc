"""Why a table is in its state, and why no round of it begins now, in words. Pure.

`status_reason` is one line about a table: the column `status_reason`. `why_not_now` returns all reasons why no round begins: what
`CALL sys.explain_tiering` returns about the table as a whole. Reasons that only lake and cluster know are not here: `calls.explain_tiering`
reads both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from tiering.coordinator.decisions.assignments import is_held, why_not_written
from tiering.coordinator.decisions.error_kinds import is_bucket_stopped
from tiering.coordinator.decisions.moment import Moment, milliseconds
from tiering.coordinator.decisions.records import ErrorInfo, TableRecord, TiererRecord
from tiering.coordinator.decisions.waits import begin_deadline
from tiering.coordinator.options import CoordinatorOptions
from tiering.counts import counted
from tiering.model.states import TableState
from tiering.procedures.explain_tiering import Decision, Explanation

_TENTHS_BELOW_MS = 10_000
_NO_TENTH_BELOW_MS = 50


def status_reason(record: TableRecord, now: Moment, *, tierer_connected: bool | None, assigned_format: str | None = None) -> str | None:
    """Returns one line; None if there is nothing to explain. `tierer_connected` is None if only the stored record is known.

    `assigned_format` is the lake format that this deployment writes, where the cluster assigns tables.
    """
    if tierer_connected is None:
        return _recorded_reason(record, now)
    reason = _own_reason(record, now, tierer_connected=tierer_connected)
    return reason if assigned_format is None else turn_reason(record, reason, assigned_format)


def _own_reason(record: TableRecord, now: Moment, *, tierer_connected: bool) -> str | None:
    if record.pause is not None and record.state is not TableState.TIERING:
        return paused_text(record, now)
    begin = begin_deadline(record)
    if record.state is TableState.SCHEDULED and begin is not None:
        return _next_check(milliseconds(begin - now.steady))
    if record.state is TableState.PENDING:
        return "waits for a tierer to have room" if tierer_connected else "waits for a tierer: no connected tierer gets tables"
    if record.state is TableState.TIERING and record.round is not None:
        return running_text(record, now)
    if record.state is TableState.FAILED:
        return failed_text(record, now)
    return None


def _recorded_reason(record: TableRecord, now: Moment) -> str | None:
    """Returns the line from the stored record, without facts that hold only while a coordinator runs."""
    match record.state:
        case TableState.TIERING if record.round is not None:
            return f"was handed to the tierer {record.round.tierer_id}"
        case _ if record.pause is not None:
            return paused_text(record, now)
        case TableState.SCHEDULED if (begin := begin_deadline(record)) is not None:
            return f"the next check is due at {wall_text(begin)}"
        case TableState.PENDING:
            return "waits for a tierer"
        case TableState.FAILED if record.retry_deadline is not None:
            return f"back-off: no attempt before {wall_text(record.retry_deadline)}"
        case TableState.FAILED:
            return failed_text(record, now)
        case _:
            return None


def next_check_texts(left_ms: npt.NDArray[np.int64]) -> tuple[list[str], npt.NDArray[np.intp]]:
    """Returns the lines of many scheduled tables at once: the distinct lines, and for each table the index of its line."""
    seconds = left_ms // 1_000
    shown = np.where(left_ms < _TENTHS_BELOW_MS, left_ms, np.where(seconds < 3_600, seconds, seconds // 60 * 60) * 1_000)
    different, text_indices = np.unique(shown, return_inverse=True)
    return [_next_check(ms) for ms in different.tolist()], text_indices


def _next_check(left_ms: int) -> str:
    return f"next check in {span_text(left_ms)}" if left_ms >= _NO_TENTH_BELOW_MS else "next check is due now"


def paused_text(record: TableRecord, now: Moment) -> str:
    """Returns who paused the table, until when and why."""
    pause = record.pause
    assert pause is not None
    until = now.to_wall(pause.until_deadline)
    limit = f" until {wall_text(until)}" if until else ""
    return f"paused by {pause.by}{limit}" + (f": {pause.reason}" if pause.reason else "")


def running_text(record: TableRecord, now: Moment) -> str:
    """Returns the progress of the running round."""
    current = record.round
    assert current is not None
    if current.cancelled_by is not None:
        return f"the round was cancelled by {current.cancelled_by}; its tierer is about to end it"
    if current.acked:
        return "committed to the lake; waits for the tierer's last report"
    if record.granted:
        return "commits to the lake"
    queued = "; the next round is queued by a CALL" if record.call is not None else ""
    silent = milliseconds(now.wall - record.heartbeat_time) if record.heartbeat_time else None
    silence = f"; last heartbeat {span_text(silent)} ago" if silent is not None and silent >= 30_000 else ""
    runs = "its upkeep runs" if record.upkeep_runs else "runs"
    return f"{runs} on the tierer {current.tierer_id}{queued}{silence}"


def failed_text(record: TableRecord, now: Moment) -> str:
    if record.retry_deadline is None:
        error_class = record.error.error_class if record.error else "unknown"
        return f"permanent error: {error_class}; not retried before the steps in next_action or error_hint"
    return f"back-off: next attempt in {span_text(milliseconds(record.retry_deadline - now.steady))}"


def wall_text(time: datetime) -> str:
    """Returns a time to the second."""
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def span_text(ms: int) -> str:
    """Returns a duration, with as many digits as a reader needs."""
    if ms < _TENTHS_BELOW_MS:
        return f"{ms / 1000:.1f} s"
    total = int(timedelta(milliseconds=ms).total_seconds())
    hours, remainder = divmod(total, 3_600)
    minutes, seconds = divmod(remainder, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def turn_reason(record: TableRecord, own_reason: str | None, lake_format: str) -> str | None:
    """Returns `own_reason`, extended by what follows from the assignment. `own_reason` is this deployment's reason for the state.

    `lake_format` is the format that this deployment writes.
    """
    if record.running is not None:
        return own_reason
    obstacle = why_not_written(record, lake_format)
    if obstacle is not None:
        return f"left to other tiering services: {obstacle}"
    if is_held(record):
        return f"held, so that no other service gets it: {own_reason}"
    if record.has_turn:
        return own_reason
    if record.pause is not None or record.state is TableState.FAILED:
        return f"{own_reason}; another service may get it meanwhile"
    return "waits for the cluster to assign it"


HOLDS_UP = frozenset({Decision.WAIT, Decision.REFUSE, Decision.RUNNING})
"""Decisions that prevent a round from beginning now."""


@dataclass(frozen=True)
class TiererCapacity:
    """The connected tierers that could take tables, their slots, how many tierers are fenced, and the running rounds."""

    tierers: int
    slots: int
    fenced: int
    running: int

    @property
    def free(self) -> int:
        """Number of slots without a round."""
        return max(0, self.slots - self.running)


def tierer_room(tierers: Iterable[TiererRecord], running: int, now: Moment) -> TiererCapacity:
    """Returns the numbers of slots of the connected tierers. `running` is the number of running rounds."""
    alive = [tierer for tierer in tierers if not tierer.stopped and not now.passed(tierer.lost_deadline)]
    able = [tierer for tierer in alive if not tierer.fenced and not tierer.superseded]
    slots = sum(max(tierer.slots, 1) for tierer in able)
    return TiererCapacity(len(able), slots, sum(1 for tierer in alive if tierer.fenced), running)


def why_not_now(
    record: TableRecord,
    now: Moment,
    room: TiererCapacity,
    options: CoordinatorOptions,
    *,
    queued_before: int = 0,
    with_numbers: bool = True,
) -> list[Explanation]:
    """Returns every reason, not only the first one. `queued_before` is the number of tables that get a tierer before this one.

    `with_numbers` is False for a caller who may not see all tables, and must not count them.
    """
    if record.upkeep_runs and not record.granted:
        upkeep = Explanation(Decision.NOTE, f"{running_text(record, now)}, and ends when a round of this or another table needs its slot")
        resting = replace(record, state=TableState.SCHEDULED)
        room = replace(room, running=room.running - 1)
        return [upkeep, *why_not_now(resting, now, room, options, queued_before=queued_before, with_numbers=with_numbers)]
    if record.running is not None:
        return [_running(record, now), *_notes(record)]
    return [
        *_turn(record, options),
        *_pause(record, now),
        *_failure(record, now),
        *_due(record, now, options),
        *_room(room, with_numbers),
        *_queue(record, queued_before, with_numbers),
        *_notes(record),
    ]


def _running(record: TableRecord, now: Moment) -> Explanation:
    current = record.running
    assert current is not None
    return Explanation(Decision.RUNNING, f"round {current.round_id}: {running_text(record, now)}")


def _turn(record: TableRecord, options: CoordinatorOptions) -> Iterator[Explanation]:
    """Yields reasons from the assignment, where the cluster assigns tables."""
    if not options.assigned_by_cluster:
        return
    obstacle = why_not_written(record, options.lake_format)
    if obstacle is not None:
        yield Explanation(Decision.REFUSE, f"left to other tiering services: {obstacle}")
    elif record.assignment is not None and record.assignment.end is not None:
        yield Explanation(Decision.WAIT, "its last turn here has ended, the cluster is being notified of it, and assigns the table again")
    elif not record.has_turn:
        yield Explanation(
            Decision.WAIT, "the cluster assigns tables: it waits for its freshness there, or another tiering service holds the table"
        )
    if record.elsewhere is not None:
        elsewhere = record.elsewhere
        yield Explanation(Decision.NOTE, f"another tiering service brought the lake to snapshot {elsewhere.lake_snapshot_id}")


def _pause(record: TableRecord, now: Moment) -> Iterator[Explanation]:
    if record.pause is not None:
        yield Explanation(Decision.WAIT, f"{paused_text(record, now)}; CALL sys.resume_tiering('{record.path}') ends the pause")


def _failure(record: TableRecord, now: Moment) -> Iterator[Explanation]:
    error = record.error
    if record.state is TableState.FAILED and record.retry_deadline is None:
        yield Explanation(Decision.REFUSE, f"failed permanently, and is not retried automatically: {_error(error)}")
    elif record.state is TableState.FAILED and not now.passed(record.retry_deadline):
        until, failures = now.to_wall(record.retry_deadline), record.consecutive_failures
        assert record.retry_deadline is not None
        assert until is not None
        left = span_text(milliseconds(record.retry_deadline - now.steady))
        yield Explanation(
            Decision.WAIT,
            f"in back-off after {failures} failures in a row: retried in {left}, at {wall_text(until)}; last error: {_error(error)}",
        )
    elif error is not None:
        situation = (
            "a bucket stops, and the others are tiered" if is_bucket_stopped(error) else "its last round failed, and the next one retries"
        )
        yield Explanation(Decision.NOTE, f"{situation}: {_error(error)}")


def _error(error: ErrorInfo | None) -> str:
    if error is None:
        return "unknown"
    phase = f" in phase {error.phase}" if error.phase else ""
    return f"{error.error_class}{phase}: {error.message}" + (f" {error.hint}" if error.hint else "")


def _due(record: TableRecord, now: Moment, options: CoordinatorOptions) -> Iterator[Explanation]:
    if record.state is not TableState.SCHEDULED or record.call is not None or options.assigned_by_cluster:
        return
    begin = begin_deadline(record)
    if begin is not None and not now.passed(begin):
        wait, at = span_text(milliseconds(begin - now.steady)), now.to_wall(begin)
        assert at is not None
        freshness = span_text(record.freshness_ms)
        yield Explanation(
            Decision.WAIT,
            f"not due for {wait}, until {wall_text(at)}: its freshness is {freshness}; CALL sys.tier_table('{record.path}') does not wait",
        )


def _room(room: TiererCapacity, with_numbers: bool) -> Iterator[Explanation]:
    if room.tierers == 0:
        fenced = f"; {room.fenced} that run are fenced" if room.fenced else ""
        yield Explanation(Decision.WAIT, f"no tierer is connected{fenced}: start one with lakeward tierer")
    elif room.free == 0:
        numbers = f": {counted(room.running, 'round')} in {counted(room.slots, 'slot')}" if with_numbers else ""
        yield Explanation(Decision.WAIT, f"no tierer has a free slot{numbers}")


def _queue(record: TableRecord, queued_before: int, with_numbers: bool) -> Iterator[Explanation]:
    if record.state is TableState.PENDING and queued_before:
        tables = counted(queued_before, "table") if with_numbers else "other tables"
        yield Explanation(Decision.WAIT, f"queued behind {tables} that a CALL waits for, that are more overdue, or that wait longer")


def _notes(record: TableRecord) -> Iterator[Explanation]:
    """Yields what the next round has to do first, and what follows it."""
    if record.running is None and record.unresolved_commit:
        granted_commit = record.commit if record.granted else None
        commit = (
            f"the commit of round {granted_commit.round_id}"
            if granted_commit is not None
            else f"a commit of epoch {record.lake.unresolved_epoch}"
        )
        others = " Until then no other tiering service gets the table." if record.assignment is not None else ""
        yield Explanation(
            Decision.NOTE, f"{commit} was granted and its outcome is unknown: a round looks for it in the lake first.{others}"
        )
    if record.call is not None:
        yield Explanation(Decision.NOTE, f"a CALL by {record.call.caller} waits for the round {record.call.round_id} that follows")
