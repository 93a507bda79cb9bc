"""CALL sys.retry_tiering: a failed table is tried again now, its back-off forgotten (DESIGN 5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.columns import column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.retry_tiering import RetryTiering
from tiering.model.tables import TablePath

NAME = "retry_tiering"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    table: str = column("The table, as it is spelled.")
    status: str = column("The table's state afterwards: Pending if it had failed, else what it was.")
    next_retry_time: datetime | None = column("When it is tried next; NULL if it waits for nothing but a tierer.")


@procedure(NAME, Parameters, Output, comment="Tries a failed table again now and forgets its back-off.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    path = await find_path(call, arguments.table)
    result = await call.perform(RetryTiering(path))
    yield Output(str(result.path), result.status, result.next_retry_time)
