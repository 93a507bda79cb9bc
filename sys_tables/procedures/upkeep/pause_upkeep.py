"""CALL sys.pause_upkeep: a table gets no upkeep any more. Its tiering goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from sys_tables.declare.columns import column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.upkeep.pause_upkeep import PauseUpkeep
from tiering.model.tables import TablePath

NAME = "pause_upkeep"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")
    reason: str | None = parameter("Why, for people who wonder.", default=None)


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    table: str = column("The table, as it is spelled.")
    previous_paused: bool = column("Whether its upkeep was paused before.")
    paused: bool = column("Whether it is now.")
    status: str = column("State of its tiering, which goes on.")


@procedure(NAME, Parameters, Output, comment="Stops the upkeep of a lake table, also in tiering rounds, until it is resumed.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    path = await find_path(call, arguments.table)
    result = await call.perform(PauseUpkeep(path, arguments.reason))
    yield Output(str(result.path), result.previous_paused, result.paused, result.status)
