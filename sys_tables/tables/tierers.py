"""sys.tierers: the tierers, as their heartbeats describe them. Without a running coordinator none are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import OPERATE_ON_SERVICE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import INT, column


@dataclass(frozen=True)
class TiererRow:
    """One process."""

    tierer_id: str = column("Its id. A restarted process may have the same.")
    host: str | None = column("The machine on which it runs, as it reports.")
    application_id: str | None = column("Id of its Spark application, as it reports.")
    version: str | None = column("Its version of Lakeward, as it reports.")
    state: str = column(
        "ACTIVE; LOST after the service timeout without a heartbeat; STOPPED after its last heartbeat; "
        "FENCED after another process started under its id."
    )
    started_at: datetime | None = column("When it started, by its own clock.")
    heartbeat_time: datetime = column("Time of its last heartbeat.")
    slots: int = column("Most rounds that it runs at a time.", arrow_type=INT)
    tables_running: int = column("Number of rounds that it runs now.", arrow_type=INT)
    rounds: int = column("Rounds that ended since its first heartbeat to this coordinator.")
    records_per_second: float | None = column("Average records per second that its running rounds read; NULL if none has begun.")


@system_table(
    "tierers",
    TiererRow,
    requires=OPERATE_ON_SERVICE,
    comment="The tierers. A tierer that is lost or has stopped is shown for a day.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[TiererRow]:
    for tierer in view.tierers():
        yield TiererRow(**vars(tierer))
