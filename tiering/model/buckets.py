"""The offsets of one bucket in the log and in the lake, which `sys.tiering_buckets` shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class BucketStatus:
    """Offsets of one bucket's log and of its rows in the lake. None = not observed, or not known."""

    database_name: str
    table_name: str
    partition_id: int | None
    partition_name: str | None
    bucket_id: int
    log_start_offset: int | None
    log_end_offset: int | None
    lake_offset: int | None
    staged_offset: int | None
    lag_records: int | None
    lag_ms: int | None
    oldest_pending_time: datetime | None
    backlog_offset: int | None
    is_backlog: bool | None
    offsets_observed_time: datetime | None
    error_class: str | None
    error_message: str | None
    stopped_at_offset: int | None
    stopped_at_record: str | None
    log_only_records: int | None
    both_records: int | None
    lake_only_records: int | None
