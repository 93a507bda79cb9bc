"""Why a table is in its state, in words: the column `status_reason`."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from tiering.coordinator.decisions.assignments import is_held, why_not_written
from tiering.coordinator.decisions.moment import Moment, milliseconds
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.waits import begin_deadline
from tiering.model.states import TableState

_TENTHS_BELOW_MS = 10_000


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
    return f"next check in {span_text(left_ms)}"


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
    heard = f"; last heartbeat {span_text(silent)} ago" if silent is not None and silent >= 30_000 else ""
    runs = "its upkeep runs" if record.upkeep_runs else "runs"
    return f"{runs} on the tierer {current.tierer_id}{queued}{heard}"


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
