"""A tierer as the coordinator knows it, as `sys.tierers` shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class TiererState(StrEnum):
    """LOST: silent for the service timeout. FENCED: another process started under its id, or somebody fenced it."""

    ACTIVE = "ACTIVE"
    LOST = "LOST"
    STOPPED = "STOPPED"
    FENCED = "FENCED"


@dataclass(frozen=True)
class TiererStatus:
    """One process. `rounds` are those that it ended since this coordinator knows it."""

    tierer_id: str
    host: str | None
    application_id: str | None
    version: str | None
    state: TiererState
    started_at: datetime | None
    heartbeat_time: datetime
    slots: int
    tables_running: int
    rounds: int
    records_per_second: float | None
