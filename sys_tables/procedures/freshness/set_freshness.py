"""CALL sys.set_freshness: changes how fresh a table's lake copy has to be."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from sys_tables.declare.columns import column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.freshness.set_freshness import SetFreshness
from tiering.model.tables import TablePath

NAME = "set_freshness"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")
    freshness: str = parameter("How old its lake copy may be: '30 s', '5 min', 'PT1H'.")


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    table: str = column("The table, as it is spelled.")
    previous_ms: int = column("The promise before, in milliseconds.")
    freshness_ms: int = column("The promise now, in milliseconds; for a dry run what it would be.")
    warning: str | None = column("What a freshness below 10 s costs; NULL for a longer one.")


@procedure(NAME, Parameters, Output, comment="Changes how fresh a table's lake copy has to be.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    path = await find_path(call, arguments.table)
    result = await call.perform(SetFreshness(path, arguments.freshness))
    yield Output(str(result.path), result.previous_ms, result.freshness_ms, result.warning)
