"""Writes stored events as log lines, each with its round, table and epoch."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from tiering.coordinator.decisions.records import EventRecord, Level

_log = structlog.get_logger(__name__)

_METHODS = {Level.INFO: "debug", Level.WARN: "warning", Level.ERROR: "error"}
"""Log methods by level. Normal operation causes several events per round, so INFO events need `--log-level debug`."""


def log_events(events: Iterable[EventRecord]) -> None:
    """Writes one line per event."""
    for event in events:
        getattr(_log, _METHODS[event.level])(event.message, **_fields(event))


def _fields(event: EventRecord) -> dict[str, object]:
    table = None if event.table_name is None else f"{event.database_name}.{event.table_name}"
    fields = {
        "event_type": event.event_type,
        "table": table,
        "round_id": event.round_id,
        "tiering_epoch": event.details.get("tiering_epoch"),
        "principal": event.principal,
    }
    return {name: value for name, value in fields.items() if value is not None}
