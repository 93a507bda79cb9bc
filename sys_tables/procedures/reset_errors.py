"""CALL sys.reset_errors: a table's errors are counted anew (docs/reference.md)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from sys_tables.declare.columns import column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.reset_errors import ResetErrors
from tiering.model.tables import TablePath

NAME = "reset_errors"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    table: str = column("The table, as it is spelled.")
    cleared: int = column("How many errors had been counted; error_count begins at 0 again.")


@procedure(NAME, Parameters, Output, comment="Counts the errors of a table anew.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    path = await find_path(call, arguments.table)
    result = await call.perform(ResetErrors(path))
    yield Output(str(result.path), result.cleared)
