"""CALL sys.wait_for_tiering: waits until a table's lake copy has certain rows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.columns import column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.freshness.wait_for_tiering import WaitForTiering
from tiering.model.call_results import Progress
from tiering.model.tables import TablePath

NAME = "wait_for_tiering"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")
    timestamp: datetime | None = parameter("Wait for the rows written until then; without it and offsets, for all of now.", default=None)
    offsets: Mapping[str, int] | None = parameter(
        "Wait for the rows below these offsets, by bucket as sys.lake_commits shows them: '3', or '17/3' in partition 17.", default=None
    )
    timeout_ms: int = parameter("How long to wait, in milliseconds.", default=300_000)


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    table: str = column("The table, as it is spelled.")
    reached: bool = column("Whether the lake has the rows; false when the time was over before.")
    lake_snapshot_id: int | None = column("The newest lake snapshot, which holds the rows if they were reached; NULL = there is none.")
    waited_ms: int = column("How long the call waited, in milliseconds.")


@procedure(NAME, Parameters, Output, comment="Waits until the lake has certain rows; makes no round.", mutates=False)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[Progress | Output]:
    path = await find_path(call, arguments.table)
    steps = call.perform_with_progress(WaitForTiering(path, arguments.timestamp, arguments.offsets, arguments.timeout_ms))
    async with aclosing(steps):
        async for step in steps:
            if isinstance(step, Progress):
                yield step
            else:
                yield Output(str(step.path), step.reached, step.lake_snapshot_id, step.waited_ms)
