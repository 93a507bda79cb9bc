"""One line per field of `TableStatus` that computes it. `table_status` makes one row; `status_columns` makes many at once.

Every field is in exactly one mapping. STORED and STEADY are read from the record, OBSERVED from the lag. REASON and NEXT_ACTION are texts
made from the record, NEXT_ACTION with the names of the reader's catalogs. PROMISE is judged from other columns. CONSTANT is the same in all
rows of one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tiering.coordinator.decisions.backlog import is_backlog
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.next_action import CatalogNames, next_action
from tiering.coordinator.decisions.records import RoundRecord, TableRecord
from tiering.coordinator.observing.lag import Lag
from tiering.coordinator.reasons import status_reason
from tiering.model.refused_records import without_record
from tiering.model.status import TableStatus, promise_of

OWN_RECORD = "coordinator"
"""Value of `status_source` for a row from the coordinator's own record. If another service tiered the table further, the row has what the
cluster reports about that (`tiering.cluster.assignments.service_status`)."""

REASON = "status_reason"
NEXT_ACTION = "next_action"
PROMISE = "promise"

Cell = Callable[[TableRecord], Any]
"""Returns one column's value for a record."""


def _of_state(record: TableRecord) -> str:
    assert record.state is not None
    return record.state.value


def _of(part: str, name: str) -> Cell:
    """Returns the cell with a field of the record's running round, error or pause; NULL without one."""

    def cell(record: TableRecord) -> Any:
        value = getattr(record, part)
        return None if value is None else getattr(value, name)

    return cell


def _round_id(record: TableRecord) -> str | None:
    """Returns the id of the running or queued round. A Pending table's round has an id, but no tierer yet."""
    latest: RoundRecord | None = record.running or record.round
    return None if latest is None or (record.running is None and latest.state.is_final) else latest.round_id


STORED: Mapping[str, Cell] = {
    "database_name": lambda record: record.database_name,
    "table_name": lambda record: record.table_name,
    "status": _of_state,
    "tiering_epoch": lambda record: record.tiering_epoch,
    "last_tiered_time": lambda record: record.elsewhere.noticed_time if record.elsewhere else record.last_tiered_time,
    "last_error": lambda record: None if record.error is None else without_record(record.error.message),
    "last_error_time": _of("error", "time"),
    "table_id": lambda record: record.table_id,
    "table_type": lambda record: record.table_type,
    "lake_format": lambda record: record.lake_format,
    "status_since": lambda record: record.status_time,
    "freshness_ms": lambda record: record.freshness_ms,
    "is_backlog": is_backlog,
    "round_id": _round_id,
    "tierer_id": _of("running", "tierer_id"),
    "round_started_time": _of("running", "started_time"),
    "heartbeat_time": lambda record: None if record.running is None else record.heartbeat_time,
    "fraction_completed": _of("running", "fraction_completed"),
    "last_checked_time": lambda record: record.last_checked_time,
    "last_round_duration_ms": lambda record: record.last_round_duration_ms,
    "lake_snapshot_id": lambda record: record.shown_snapshot_id,
    "lake_records": lambda record: record.lake.records,
    "lake_bytes": lambda record: record.lake.size_bytes,
    "lake_files": lambda record: record.lake.files,
    "error_class": _of("error", "error_class"),
    "error_phase": _of("error", "phase"),
    "error_hint": lambda record: (record.error.full_hint or None) if record.error else None,
    "error_retryable": _of("error", "retryable"),
    "error_count": lambda record: record.error_count,
    "consecutive_failures": lambda record: record.consecutive_failures,
    "paused": lambda record: record.pause is not None,
    "paused_by": _of("pause", "by"),
    "paused_reason": _of("pause", "reason"),
    "status_source": lambda record: record.elsewhere.source if record.elsewhere else OWN_RECORD,
}
"""Columns that are values of the record."""

STEADY: Mapping[str, Cell] = {
    "freshness_deadline": lambda record: record.due_deadline,
    "next_retry_time": lambda record: record.retry_deadline,
    "paused_until": _of("pause", "until_deadline"),
}
"""Columns that are steady deadlines of the record, displayed as wall time (`Moment.to_wall`)."""

OBSERVED: Mapping[str, Callable[[Lag, datetime], Any]] = {
    "lag_ms": lambda lag, now: lag.age_ms(now),
    "pending_records": lambda lag, now: lag.records,
    "pending_bytes": lambda lag, now: lag.size_bytes,
    "oldest_pending_time": lambda lag, now: lag.oldest_time,
    "offsets_observed_time": lambda lag, now: lag.observed_time,
}
"""Columns that are values of the last observed lag; all NULL before the first observation."""

CONSTANT: Mapping[str, Callable[[Moment], Any]] = {"observed_time": lambda now: now.wall}


def table_status(
    record: TableRecord, now: Moment, lag: Lag | None, *, tierer_connected: bool | None, assigned_format: str | None = None
) -> TableStatus:
    """Returns the row of one table at the moment `now`.

    `lag` is the last observed one. The other parameters are those of `status_reason`.
    """
    values: dict[str, Any] = {name: cell(record) for name, cell in STORED.items()}
    values |= {name: now.to_wall(cell(record)) for name, cell in STEADY.items()}
    values |= {name: None if lag is None else cell(lag, now.wall) for name, cell in OBSERVED.items()}
    values |= {name: cell(now) for name, cell in CONSTANT.items()}
    reason = status_reason(record, now, tierer_connected=tierer_connected, assigned_format=assigned_format)
    promise = promise_of(values["lag_ms"], record.freshness_ms, values["status"], paused=values["paused"])
    return TableStatus(promise=promise, status_reason=reason, next_action=next_action(record, CatalogNames()), **values)
