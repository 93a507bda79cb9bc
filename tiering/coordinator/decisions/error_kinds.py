"""The kinds of errors of a table's rounds, by phase and class: how often, since when, and whether resolved."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from tiering.coordinator.decisions.records import ErrorInfo, ErrorRecord, TableRecord
from tiering.errors import BucketStopped
from tiering.model.refused_records import RECORD_ID

MAX_ERRORS = 30
"""Kinds of errors that a table's record keeps. More classes would only come from a faulty tierer. The store keeps the older ones."""


def with_failure(record: TableRecord, error: ErrorInfo) -> tuple[ErrorRecord, ...]:
    """Returns the kinds of errors after the table's latest round failed. The kind of this error is last."""
    assert record.round is not None
    offset = error.ids.get("offset", "")
    failure = ErrorRecord(
        table_id=record.table_id,
        database_name=record.database_name,
        table_name=record.table_name,
        phase=error.phase,
        error_class=error.error_class,
        message=error.message,
        hint=error.hint,
        retryable=error.retryable,
        count=1,
        first_seen=error.time,
        last_seen=error.time,
        last_round_id=record.round.round_id,
        bucket=error.ids.get("bucket"),
        offset=int(offset) if offset.isdecimal() else None,
        trace=error.ids.get("trace"),
        record_text=error.ids.get(RECORD_ID),
    )
    former = next((row for row in record.errors if row.key == failure.key), None)
    if former is not None:
        failure = replace(failure, count=former.count + 1, first_seen=former.first_seen)
    others = tuple(row for row in record.errors if row.key != failure.key)
    return (*others[-(MAX_ERRORS - 1) :], failure)


def resolved(errors: tuple[ErrorRecord, ...], time: datetime, stopped: ErrorInfo | None = None) -> tuple[ErrorRecord, ...]:
    """Returns the kinds of errors after a successful round. `stopped` is the error of a bucket that still stops at a record."""
    stopped_kind = None if stopped is None else (stopped.phase, stopped.error_class)
    return tuple(
        row if row.resolved_at is not None or (row.phase, row.error_class) == stopped_kind else replace(row, resolved_at=time)
        for row in errors
    )


def is_bucket_stopped(error: ErrorInfo | None) -> bool:
    """Returns whether the error is of one bucket that stops at a record while the other buckets are tiered."""
    return error is not None and error.error_class == BucketStopped.__name__


def stopped_after(record: TableRecord, reported: ErrorInfo | None) -> ErrorInfo | None:
    """Returns the error of a bucket that stops at a record after the table's latest round ended well; None if no bucket stops.

    `reported` is the error that this round reported. A round may report none although the bucket still stops, because it ended before it
    reached the record, or its tierer was lost. Then the error stays until the lake has passed the record, or the record is skipped,
    rewritten or dropped.
    """
    error = record.error if reported is None else reported
    if error is None or not is_bucket_stopped(error):
        return None
    bucket, offset = error.ids.get("bucket", ""), _offset_of(error)
    if offset is not None and _is_left_out(record, bucket, offset, error.ids.get("trace")):
        return None
    return error if reported is not None or _is_ahead(record, bucket, offset) else None


def _is_left_out(record: TableRecord, bucket: str, offset: int, trace: str | None) -> bool:
    """Returns whether the record of an error was left out. `trace` identifies that record.

    Without a trace it is unknown whether the error is of the record that was left out, or of another record that got the offset when the
    log was rewritten. Then the error stays until the lake is past the offset, and a table that stops again waits for its back-off.
    """
    if trace is None and record.lake.skipped_traces.get(bucket, {}).get(offset) is not None:
        return False
    return record.lake.has_skipped(bucket, offset, trace)


def is_same_stop(before: ErrorInfo | None, stopped: ErrorInfo) -> bool:
    """Returns whether both errors are of the same record, or of the KV snapshot of the same bucket."""
    if before is None or before.error_class != stopped.error_class:
        return False
    return before.ids.get("bucket") == stopped.ids.get("bucket") and _offset_of(before) == _offset_of(stopped)


def _is_ahead(record: TableRecord, bucket: str, offset: int | None) -> bool:
    """Returns whether the latest round planned to read the record, and the lake is not past it.

    `offset` None stands for the bucket's KV snapshot.
    """
    planned = None if record.round is None else (record.round.planned_stops or {}).get(bucket)
    if planned is None:
        return False
    tiered = (record.lake.offsets or {}).get(bucket)
    return tiered is None if offset is None else (tiered or 0) <= offset < planned


def _offset_of(error: ErrorInfo) -> int | None:
    text = error.ids.get("offset", "")
    return int(text) if text.isdecimal() else None
