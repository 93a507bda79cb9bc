"""`CoordinatorView` (see `api`): one moment of all records, and the statuses made from it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tiering.cluster.base import Cluster
from tiering.coordinator.api import TableStatus
from tiering.coordinator.observer import Observer, Pending
from tiering.coordinator.open_calls import OpenCall
from tiering.coordinator.reasons import status_reason
from tiering.coordinator.records import TableRecord
from tiering.coordinator.timebase import Moment
from tiering.model import TableInfo, TablePath

STATUS_SOURCE = "coordinator"
"""Where these statuses come from, as opposed to relayed or derived ones (SYS.md)."""


class View:
    """A read-only look. The records do not change any more; names of databases and tables come from the cluster itself."""

    def __init__(
        self,
        moment: Moment,
        records: Sequence[TableRecord],
        cluster: Cluster,
        observer: Observer,
        *,
        tierer_connected: bool,
        open_calls: Sequence[OpenCall] = (),
    ) -> None:
        self._moment = moment
        self._records = records
        self._cluster = cluster
        self._observer = observer
        self._tierer_connected = tierer_connected
        self._open_calls = open_calls

    @property
    def now(self) -> datetime:
        return self._moment.wall

    def databases(self) -> Sequence[str]:
        return self._cluster.databases()

    def tables(self, database_name: str) -> Sequence[TableInfo]:
        return self._cluster.tables(database_name)

    def table(self, path: TablePath) -> TableInfo:
        return self._cluster.table(path)

    def table_statuses(self, database_name: str | None = None, table_name: str | None = None) -> Sequence[TableStatus]:
        chosen = [
            record for record in self._records if database_name in (None, record.database_name) and table_name in (None, record.table_name)
        ]
        if not _on_event_loop():
            self._observer.refresh_for_a_look(chosen)
        chosen.sort(key=lambda record: record.path)
        return [self._status(record) for record in chosen]

    def open_calls(self) -> Sequence[OpenCall]:
        return self._open_calls

    def _status(self, record: TableRecord) -> TableStatus:
        return table_status(record, self._moment, self._observer.pending(record), tierer_connected=self._tierer_connected)


def table_status(record: TableRecord, now: Moment, seen: Pending | None, *, tierer_connected: bool) -> TableStatus:
    """One row. `seen`: what is pending, as last observed."""
    assert record.state is not None
    running, lake = record.running, record.lake
    return TableStatus(
        database_name=record.database_name,
        table_name=record.table_name,
        status=record.state.value,
        tiering_epoch=record.tiering_epoch,
        last_tiered_time=record.last_tiered_time,
        table_id=record.table_id,
        table_type=record.table_type,
        lake_format=record.lake_format,
        status_since=record.status_time,
        status_reason=status_reason(record, now, tierer_connected=tierer_connected),
        status_source=STATUS_SOURCE,
        freshness_ms=record.freshness_ms,
        lag_ms=seen.lag_ms(now.wall) if seen else None,
        freshness_deadline=now.to_wall(record.due_deadline),
        pending_records=seen.records if seen else None,
        pending_bytes=seen.size_bytes if seen else None,
        oldest_pending_time=seen.oldest_time if seen else None,
        offsets_observed_time=seen.observed_time if seen else None,
        is_backlog=None,
        round_id=running.round_id if running else _queued_round_id(record),
        tierer_id=running.tierer_id if running else None,
        round_started_time=running.started_time if running else None,
        heartbeat_time=record.heartbeat_time if running else None,
        fraction_completed=running.fraction_completed if running else None,
        last_checked_time=record.last_checked_time,
        last_round_duration_ms=record.last_round_duration_ms,
        lake_snapshot_id=lake.snapshot_id,
        lake_records=lake.records,
        lake_bytes=lake.size_bytes,
        lake_files=lake.files,
        **_error_columns(record, now),
        **_pause_columns(record, now),
        observed_time=now.wall,
    )


def _error_columns(record: TableRecord, now: Moment) -> dict[str, Any]:
    error = record.error
    return {
        "last_error": error.message if error else None,
        "last_error_time": error.time if error else None,
        "error_class": error.error_class if error else None,
        "error_phase": error.phase if error else None,
        "error_hint": (error.hint or None) if error else None,
        "error_retryable": error.retryable if error else None,
        "error_count": record.error_count,
        "consecutive_failures": record.consecutive_failures,
        "next_retry_time": now.to_wall(record.retry_deadline),
    }


def _pause_columns(record: TableRecord, now: Moment) -> dict[str, Any]:
    pause = record.pause
    return {
        "paused": pause is not None,
        "paused_by": pause.by if pause else None,
        "paused_reason": pause.reason if pause else None,
        "paused_until": now.to_wall(pause.until_deadline) if pause else None,
    }


def _queued_round_id(record: TableRecord) -> str | None:
    """A Pending table's round has its id already, and no tierer yet."""
    return record.round.round_id if record.round is not None and not record.round.state.is_final else None


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
