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

    tierer_id: str = column("Id of the tierer. A restarted process may have the same id.")
    host: str | None = column("The machine on which the tierer runs, as it reports.")
    application_id: str | None = column("Id of the tierer's Spark application, as it reports.")
    version: str | None = column("The tierer's version of Lakeward, as it reports.")
    state: TiererState = column(
        "State of the tierer: ACTIVE; LOST after the service timeout without a heartbeat; STOPPED after its last heartbeat; "
        "FENCED after another process started under its id."
    )
    started_at: datetime | None = column("When the tierer started, by its own clock.")
    heartbeat_time: datetime = column("Time of the last heartbeat.")
    slots: int = column("Maximum number of rounds that the tierer runs at a time.", arrow_type=INT)
    tables_running: int = column("Number of rounds that the tierer runs now.", arrow_type=INT)
    rounds: int = column("Number of rounds that ended since the first heartbeat of the tierer to this coordinator.")
    records_per_second: float | None = column("Average records per second that the running rounds read; NULL if none has begun.")
