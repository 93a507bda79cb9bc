"""sys.tierers: the processes that tier, as their heartbeats describe them. None are known while no coordinator runs."""

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

    tierer_id: str = column("Its id; a process that is started again may have the same.")
    host: str | None = column("The machine that it runs on, as it says.")
    application_id: str | None = column("Id of its Spark application, as it says.")
    version: str | None = column("Its version of Lakeward, as it says.")
    state: str = column("ACTIVE; LOST after silence; STOPPED when it said goodbye; FENCED when another process started under its id.")
    started_at: datetime | None = column("When it started, by its own clock.")
    heartbeat_time: datetime = column("When it was heard of last.")
    slots: int = column("How many tables it moves at a time.", arrow_type=INT)
    tables_running: int = column("How many it moves now.", arrow_type=INT)
    rounds: int = column("Rounds that it has ended since this coordinator knows it.")
    records_per_second: float | None = column("Records that its running rounds read in a second, on the average; NULL if none has begun.")


@system_table(
    "tierers",
    TiererRow,
    requires=OPERATE_ON_SERVICE,
    comment="The processes that tier. One that is lost, or has stopped, is shown for a day.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[TiererRow]:
    for tierer in view.tierers():
        yield TiererRow(**vars(tierer))
