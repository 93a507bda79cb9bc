"""How the tiering of a lake table stands: the row of `sys.lake_tiering_status`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class TableStatus:
    """How the tiering of one lake table stands: `sys.lake_tiering_status` (SYS.md), field by column. None = unknown."""

    database_name: str
    table_name: str
    status: str
    tiering_epoch: int
    last_tiered_time: datetime | None
    last_error: str | None
    last_error_time: datetime | None
    table_id: int
    table_type: str
    lake_format: str
    status_since: datetime
    status_reason: str | None
    status_source: str
    freshness_ms: int
    lag_ms: int | None
    freshness_deadline: datetime | None
    pending_records: int | None
    pending_bytes: int | None
    oldest_pending_time: datetime | None
    offsets_observed_time: datetime | None
    is_backlog: bool | None
    round_id: str | None
    tierer_id: str | None
    round_started_time: datetime | None
    heartbeat_time: datetime | None
    fraction_completed: float | None
    last_checked_time: datetime | None
    last_round_duration_ms: int | None
    lake_snapshot_id: int | None
    lake_records: int | None
    lake_bytes: int | None
    lake_files: int | None
    error_class: str | None
    error_phase: str | None
    error_hint: str | None
    error_retryable: bool | None
    error_count: int
    consecutive_failures: int
    next_retry_time: datetime | None
    paused: bool
    paused_by: str | None
    paused_reason: str | None
    paused_until: datetime | None
    observed_time: datetime
