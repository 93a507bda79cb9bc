"""The coordinator's facts about a tierer, which `sys.tierers` shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class TiererState(StrEnum):
    """LOST: it sent nothing for the service timeout. FENCED: another process started with its id, or a user fenced it."""

    ACTIVE = "ACTIVE"
    LOST = "LOST"
    STOPPED = "STOPPED"
    FENCED = "FENCED"


@dataclass(frozen=True)
class TiererStatus:
    """One tierer process. `rounds` counts the rounds that it ended since this coordinator first received a message from it."""

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
