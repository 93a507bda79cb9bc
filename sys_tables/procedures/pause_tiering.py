"""CALL sys.pause_tiering: a table is not tiered any more until it is resumed (DESIGN 5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.columns import column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.pause_tiering import PauseTiering
from tiering.model.tables import TablePath

NAME = "pause_tiering"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")
    reason: str | None = parameter("Why, for people who wonder.", default=None)
    until: datetime | None = parameter("When the pause ends by itself; NULL = when somebody resumes the table.", default=None)


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    table: str = column("The table, as it is spelled.")
    previous_paused: bool = column("Whether it was paused before.")
    paused: bool = column("Whether it is now.")
    status: str = column("State of its tiering: a round that runs ends normally.")


@procedure(NAME, Parameters, Output, comment="Stops the tiering of a table until it is resumed.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    path = await find_path(call, arguments.table)
    request = PauseTiering(path, arguments.reason, arguments.until)
    result = await call.perform(request)
    yield Output(str(result.path), result.previous_paused, result.paused, result.status)
