"""CALL sys.expire_snapshots: removes old snapshots of a lake table, now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.columns import INT, column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.upkeep.expire_snapshots import ExpireSnapshots
from tiering.model.call_results import Progress, UpkeepResult
from tiering.model.tables import TablePath

NAME = "expire_snapshots"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")
    older_than: datetime | None = parameter(
        "Only snapshots that were committed before this time. NULL = as table.datalake.snapshot.max-age says.", default=None
    )
    retain_last: int | None = parameter(
        "So many of the newest snapshots stay, at least 1. NULL = as table.datalake.snapshot.min-count says.", default=None, arrow_type=INT
    )
    wait: bool = parameter("Whether to wait until the snapshots are removed.", default=True)
    timeout_ms: int = parameter("How long to wait, in milliseconds; the rounds go on afterwards.", default=300_000)


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    table: str = column("The table, as it is spelled.")
    outcome: str = column(
        "SUCCEEDED, EMPTY (nothing to do), DROPPED (other commits came first, nothing was removed); WAITING or RUNNING if the call did not "
        "wait for the end; PLANNED for a dry run."
    )
    reason: str | None = column("Why it is not done, or not wholly; NULL if it is.")
    round_id: str | None = column("The last upkeep round; NULL if none was needed.")
    deleted_snapshots_count: int = column("Snapshots that were removed. Their files are deleted later, by the sweep.")
    kept_snapshots_count: int | None = column("Snapshots that stay; NULL if the call did not wait for the end.")
    kept_because: str | None = column("How many stay for which reason, such as the name of the tag or branch that needs them.")


@procedure(NAME, Parameters, Output, comment="Removes old snapshots of a lake table, now.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[Progress | Output]:
    path = await find_path(call, arguments.table)
    request = ExpireSnapshots(
        path, arguments.wait, arguments.timeout_ms, older_than=arguments.older_than, retain_last=arguments.retain_last
    )
    steps = call.perform_with_progress(request)
    async with aclosing(steps):
        async for step in steps:
            yield step if isinstance(step, Progress) else output_of(step)


def output_of(result: UpkeepResult) -> Output:
    """The row of a result."""
    return Output(
        table=str(result.path),
        outcome=result.outcome.value,
        reason=result.reason,
        round_id=result.round_id,
        deleted_snapshots_count=result.stats.snapshots_expired,
        kept_snapshots_count=sum(result.kept.values()) if result.kept else None,
        kept_because="; ".join(f"{number}: {reason}" for reason, number in result.kept.items()) or None,
    )
