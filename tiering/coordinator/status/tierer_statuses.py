"""The statuses of the known tierers at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import RoundRecord, TableRecord, TiererRecord
from tiering.instants import from_milliseconds
from tiering.model.tierers import TiererState, TiererStatus


def tierer_statuses(now: Moment, tierers: Iterable[TiererRecord], records: Iterable[TableRecord]) -> Sequence[TiererStatus]:
    """Returns one status per process, by id. `records` are those of the same moment."""
    running = [record.running for record in records if record.running is not None]
    return [_status(now, tierer, [row for row in running if _is_of(row, tierer)]) for tierer in tierers]


def _is_of(row: RoundRecord, tierer: TiererRecord) -> bool:
    return row.tierer_id == tierer.tierer_id and row.incarnation in (None, tierer.incarnation)


def _status(now: Moment, tierer: TiererRecord, rounds: Sequence[RoundRecord]) -> TiererStatus:
    return TiererStatus(
        tierer_id=tierer.tierer_id,
        host=tierer.host or None,
        application_id=tierer.application_id or None,
        version=tierer.version or None,
        state=_state(now, tierer),
        started_at=_started_at(tierer),
        heartbeat_time=tierer.heartbeat_time,
        slots=tierer.slots,
        tables_running=len(rounds),
        rounds=tierer.rounds,
        records_per_second=_records_per_second(now, rounds),
    )


def _state(now: Moment, tierer: TiererRecord) -> TiererState:
    if tierer.stopped:
        return TiererState.STOPPED
    if now.passed(tierer.lost_deadline):
        return TiererState.LOST
    return TiererState.FENCED if tierer.superseded or tierer.fenced else TiererState.ACTIVE


def _started_at(tierer: TiererRecord) -> datetime | None:
    """Returns the start that the process reported; None for an impossible time."""
    try:
        return from_milliseconds(tierer.started_at_ms) if tierer.started_at_ms > 0 else None
    except OverflowError:
        return None


def _records_per_second(now: Moment, rounds: Sequence[RoundRecord]) -> float | None:
    """Returns the records per second of the running rounds since their assignments; None if none has counted any yet."""
    speeds = []
    for row in rounds:
        if row.records_done is not None and row.started_time is not None:
            seconds = (now.wall - row.started_time) / timedelta(seconds=1)
            if seconds > 0:
                speeds.append(row.records_done / seconds)
    return sum(speeds) if speeds else None
