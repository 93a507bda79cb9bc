"""CALL sys.tier_table: brings a table's lake copy up to now (DESIGN 5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from sys_tables.declare.columns import INT, column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.tier_table import TierTable
from tiering.errors import InvalidArgument
from tiering.model.call_results import Progress, TierTableResult
from tiering.model.tables import TablePath

NAME = "tier_table"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")
    wait: bool = parameter("Whether to wait until the lake has every row written before the call.", default=True)
    timeout_ms: int = parameter("How long to wait, in milliseconds; the round goes on afterwards.", default=300_000)


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    table: str = column("The table, as it is spelled.")
    round_id: str | None = column("The round that did it, or will; NULL if none was needed.")
    state: str = column("State of the round, EMPTY if there was nothing to do; the table's state if the call did not wait for the end.")
    tiering_epoch: int = column("Number of the table's latest entry to Pending.")
    lake_snapshot_id: int | None = column("The lake snapshot that holds the rows.")
    splits: int | None = column("Units of reading in the round.", arrow_type=INT)
    records: int | None = column("Records written to the lake.")
    files: int | None = column("Files written to the lake.")
    bytes: int | None = column("Bytes of these files.")
    lag_ms_before: int | None = column("Age of the oldest row not in the lake at the call, in milliseconds.")
    lag_ms_after: int | None = column("The same when the call returned.")
    duration_ms: int = column("How long the call took, in milliseconds.")


@procedure(NAME, Parameters, Output, comment="Tiers a table now and waits until the lake has caught up.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[Progress | Output]:
    if arguments.timeout_ms < 0:
        raise InvalidArgument(f"the argument 'timeout_ms' of sys.{NAME} is {arguments.timeout_ms}: it cannot be negative")
    path = await find_path(call, arguments.table)
    request = TierTable(path, arguments.wait, arguments.timeout_ms)
    steps = call.perform_with_progress(request)
    async with aclosing(steps):
        async for step in steps:
            yield step if isinstance(step, Progress) else output_of(step)


def output_of(result: TierTableResult) -> Output:
    """The row of a result."""
    return Output(
        table=str(result.path),
        round_id=result.round_id,
        state=result.state,
        tiering_epoch=result.tiering_epoch,
        lake_snapshot_id=result.lake_snapshot_id,
        splits=result.splits,
        records=result.records,
        files=result.files,
        bytes=result.bytes,
        lag_ms_before=result.lag_ms_before,
        lag_ms_after=result.lag_ms_after,
        duration_ms=result.duration_ms,
    )
