"""The kinds of errors that a table's rounds had, by phase and class: how often, since when, and whether that is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from tiering.coordinator.decisions.records import ErrorInfo, ErrorRecord, TableRecord

MAX_ERRORS = 30
"""Kinds that a table's record counts on: more classes come only from a tierer that makes them up. The store has the others as they were."""


def with_failure(record: TableRecord, error: ErrorInfo) -> tuple[ErrorRecord, ...]:
    """The kinds after the table's latest round failed; the one of this error is last."""
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
    )
    former = next((row for row in record.errors if row.key == failure.key), None)
    if former is not None:
        failure = replace(failure, count=former.count + 1, first_seen=former.first_seen)
    others = tuple(row for row in record.errors if row.key != failure.key)
    return (*others[-(MAX_ERRORS - 1) :], failure)


def resolved(errors: tuple[ErrorRecord, ...], time: datetime) -> tuple[ErrorRecord, ...]:
    """The kinds once a round went well."""
    return tuple(row if row.resolved_at is not None else replace(row, resolved_at=time) for row in errors)
