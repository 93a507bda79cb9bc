"""The goal of a call of `tier_table`, its row and its errors. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tiering import errors
from tiering.coordinator.decisions.change import cancel_text
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import ErrorInfo, OperationRecord, RoundRecord, TableRecord, TextOffsets
from tiering.counts import counted
from tiering.errors import cut_message
from tiering.model.tables import TablePath
from tiering.procedures.base import Progress
from tiering.procedures.tier_table import TierTableResult
from tiering.rpc.v1.common_pb2 import PbError
from tiering.wire.errors import error_from_pb


@dataclass(frozen=True)
class Goal:
    """The goal of a call: this table's log up to `targets` is in the lake.

    `round_id` is the round that the call expects now. `seen_snapshot_id` is the recorded lake snapshot that it checked without success.
    """

    path: TablePath
    table_id: int
    targets: TextOffsets
    log_starts: TextOffsets
    started_since: datetime
    lag_ms_before: int | None
    round_id: str | None = None
    seen_snapshot_id: int | None = None


def row(
    goal: Goal,
    state: str,
    record: TableRecord,
    current: RoundRecord | None,
    now: Moment,
    *,
    lake_snapshot_id: int | None = None,
    lag_ms_after: int | None = None,
) -> TierTableResult:
    """Returns the output row. Statistics are those that the round has reported."""
    stats = current.stats if current else None
    return TierTableResult(
        path=goal.path,
        round_id=goal.round_id,
        state=state,
        tiering_epoch=current.tiering_epoch if current else record.tiering_epoch,
        lake_snapshot_id=lake_snapshot_id if lake_snapshot_id is not None else (current.lake_snapshot_id if current else None),
        splits=stats.splits if stats else (current.splits_total if current else None),
        records=stats.records_written if stats else None,
        files=stats.files_written if stats else None,
        bytes=stats.bytes_written if stats else None,
        lag_ms_before=goal.lag_ms_before,
        lag_ms_after=lag_ms_after,
        duration_ms=now.milliseconds_since(goal.started_since),
    )


def empty_row(goal: Goal, record: TableRecord, lake_snapshot_id: int | None, now: Moment, lag_ms_after: int | None) -> TierTableResult:
    """Returns the row of a call with nothing to do, for which no round was created."""
    empty = row(goal, "EMPTY", record, None, now, lake_snapshot_id=lake_snapshot_id, lag_ms_after=lag_ms_after)
    return replace(empty, splits=0, records=0, files=0, bytes=0)


def progress_of(record: TableRecord, current: RoundRecord | None, *, needs_turn: bool = False) -> Progress:
    """Returns the state and progress of the expected round. `needs_turn`: the cluster assigns tables."""
    running = record.running
    is_running = current is not None and running is not None and running.round_id == current.round_id
    return Progress(progress_line(record, current, needs_turn=needs_turn), running.progress if running is not None and is_running else None)


def progress_line(record: TableRecord, current: RoundRecord | None, *, needs_turn: bool = False) -> str:
    """Returns the state of the expected round as a text."""
    if current is None:
        ahead = record.round.round_id if record.round else "another round"
        return f"queued: {ahead} of {record.path} runs before it"
    running = record.running
    if running is None or running.round_id != current.round_id:
        if needs_turn and not record.has_turn:
            return f"round {current.round_id} of {record.path} waits until the cluster assigns it: its freshness cannot be shortened"
        return f"round {current.round_id} of {record.path} waits for a tierer"
    done = ""
    if running.splits_total:
        done = f", {running.splits_done or 0} of {counted(running.splits_total, 'split')} done"
        if running.records_total:
            done += f", {running.records_done or 0:,} of {counted(running.records_total, 'record')}"
    return f"round {current.round_id} of {record.path} runs on the tierer {running.tierer_id}{done}"


def in_context(error: ErrorInfo, path: TablePath, round_id: str) -> ErrorInfo:
    """Returns the round's error with the names of its table and round."""
    phase = f" in phase {error.phase}" if error.phase else ""
    ids = {**error.ids, "round_id": round_id, "table": str(path), **({"phase": error.phase} if error.phase else {})}
    return replace(error, message=cut_message(f"tiering {path} failed{phase}: {error.message}"), ids=ids)


def error_of(error: ErrorInfo) -> errors.LakewardError:
    """Returns the error to raise, of its own class if this version has it."""
    pb = PbError(error_class=error.error_class, message=error.message, hint=error.hint, retryable=error.retryable, ids=dict(error.ids))
    return error_from_pb(pb)


def cancelled_error(record: TableRecord, ended: RoundRecord, now: datetime) -> ErrorInfo:
    """Returns the error of a call whose round was cancelled."""
    text = cancel_text(ended) if ended.cancelled_by else f"round {ended.round_id} of {record.path} was cancelled by a change of the table"
    return ErrorInfo("RoundCancelled", text, None, "Call again to tier the table.", retryable=True, time=now)


def goal_again(path: TablePath, operation: OperationRecord, since: datetime) -> Goal:
    """Returns the goal of the earlier call with this key."""
    assert operation.table_id is not None
    return Goal(
        path=path,
        table_id=operation.table_id,
        targets=operation.targets,
        log_starts=operation.log_starts,
        started_since=since,
        lag_ms_before=operation.lag_ms_before,
        round_id=operation.round_id,
    )


def goal_fields(goal: Goal) -> dict[str, Any]:
    """Returns the fields that an operation stores in addition to table and round."""
    return {"targets": goal.targets, "log_starts": goal.log_starts, "lag_ms_before": goal.lag_ms_before}
