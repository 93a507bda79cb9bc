"""CALL sys.resume_tiering: ends a pause (DESIGN 5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from sys_tables.declare.columns import column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.resume_tiering import ResumeTiering
from tiering.model.tables import TablePath

NAME = "resume_tiering"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")
    reason: str | None = parameter("Why, for people who wonder.", default=None)


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    table: str = column("The table, as it is spelled.")
    previous_paused: bool = column("Whether it was paused before.")
    paused: bool = column("Whether it is now.")
    status: str = column("State of its tiering: a table whose freshness has passed is tiered next.")


@procedure(NAME, Parameters, Output, comment="Ends a pause: the table is tiered again.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    path = await find_path(call, arguments.table)
    request = ResumeTiering(path, arguments.reason)
    result = await call.perform(request)
    yield Output(str(result.path), result.previous_paused, result.paused, result.status)
