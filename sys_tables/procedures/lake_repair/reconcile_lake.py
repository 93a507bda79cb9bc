"""CALL sys.reconcile_lake: says what a lake table that failed its base check for good is to be taken for (DESIGN 6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from sys_tables.declare.columns import column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.lake_repair.reconcile_lake import ReconcileLake, action_of
from tiering.model.tables import TablePath

NAME = "reconcile_lake"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")
    action: str = parameter(
        "accept: the lake is right as it is now, go on from the recorded offsets. retier: go on from what the lake holds now, and make it "
        "anew where it holds nothing. adopt: take over what another tiering service wrote. deduplicate: keep one of the rows of "
        "a log table that another tiering service committed twice."
    )


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    table: str = column("The table, as it is spelled.")
    action: str = column("What was asked for.")
    round_id: str | None = column("The round id in the marker that was committed; NULL if none was.")
    lake_snapshot_id: int | None = column("The lake snapshot that tiering goes on from.")
    outcome: str = column("reconciled; not_needed if nothing was wrong; would_reconcile for a dry run.")
    records_left_out: int | None = column(
        "How many records the lake lacks and will not be given, of the log or of dropped partitions: of a primary-key table, changes. "
        "NULL if it cannot be told."
    )
    records_removed: int | None = column(
        "How many rows of the lake were removed: those there twice, or behind a gap. NULL if it was not counted."
    )


@procedure(NAME, Parameters, Output, comment="Makes a lake table that others changed one to go on with.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[str | Output]:
    action = action_of(arguments.action)
    path = await find_path(call, arguments.table)
    request = ReconcileLake(path, action.value)
    result = await call.perform(request)
    goes_on = "".join(f"bucket {bucket} at {offset}, " for bucket, offset in list(result.offsets.items())[:20])
    others = "every other bucket" if goes_on else "every bucket"
    yield f"{result.outcome}: tiering of {result.path} goes on with {goes_on}{others} with its KV snapshot or at the start of its log"
    yield Output(
        str(result.path),
        result.action,
        result.round_id,
        result.lake_snapshot_id,
        result.outcome,
        result.records_left_out,
        result.records_removed,
    )
