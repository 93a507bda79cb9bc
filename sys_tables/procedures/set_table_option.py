"""CALL sys.set_table_option: sets an option of a table that is there, such as its freshness."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from sys_tables.declare.columns import column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.set_table_option import SetTableOption
from tiering.model.tables import TablePath

NAME = "set_table_option"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")
    name: str = parameter("The option, such as table.datalake.freshness; docs/options.md lists them.")
    value: str | None = parameter("Its value, as text; NULL = back to the default.", default=None)


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    table: str = column("The table, as it is spelled.")
    name: str = column("The option.")
    previous_value: str | None = column("Its value before; NULL = the default.")
    value: str | None = column("Its value now; NULL = the default.")
    outcome: str = column("set; unchanged if it had that value; would_set for a dry run.")


@procedure(NAME, Parameters, Output, comment="Sets an option of a table, or takes it back to its default.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    path = await find_path(call, arguments.table)
    result = await call.perform(SetTableOption(path, arguments.name, arguments.value))
    yield Output(str(result.path), result.name, result.previous_value, result.value, result.outcome)
