"""The coordinator's facts about a tierer, which `sys.tierers` shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tiering.model.declare import INT, column


class TiererState(StrEnum):
    """LOST: it sent nothing for the service timeout. FENCED: another process started with its id, or a user fenced it."""

    ACTIVE = "ACTIVE"
    LOST = "LOST"
    STOPPED = "STOPPED"
    FENCED = "FENCED"


@dataclass(frozen=True)
class TiererStatus:
    """One tierer process. `rounds` counts the rounds that it ended since this coordinator first received a message from it."""

    tierer_id: str = column("Its id. A restarted process may have the same.")
    host: str | None = column("The machine on which it runs, as it reports.")
    application_id: str | None = column("Id of its Spark application, as it reports.")
    version: str | None = column("Its version of Lakeward, as it reports.")
    state: TiererState = column(
        "ACTIVE; LOST after the service timeout without a heartbeat; STOPPED after its last heartbeat; "
        "FENCED after another process started under its id."
    )
    started_at: datetime | None = column("When it started, by its own clock.")
    heartbeat_time: datetime = column("Time of its last heartbeat.")
    slots: int = column("Most rounds that it runs at a time.", arrow_type=INT)
    tables_running: int = column("Number of rounds that it runs now.", arrow_type=INT)
    rounds: int = column("Rounds that ended since its first heartbeat to this coordinator.")
    records_per_second: float | None = column("Average records per second that its running rounds read; NULL if none has begun.")
