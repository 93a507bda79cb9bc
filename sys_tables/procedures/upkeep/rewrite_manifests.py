"""CALL sys.rewrite_manifests: merges the manifests of a lake table, now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from sys_tables.declare.columns import column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.query.lookup import find_path
from tiering.coordinator.calls.upkeep.rewrite_manifests import RewriteManifests
from tiering.model.call_results import Progress, UpkeepResult
from tiering.model.tables import TablePath

NAME = "rewrite_manifests"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    table: TablePath = parameter("The table: db.t or cat.db.t.")
    wait: bool = parameter("Whether to wait until the manifests are merged.", default=True)
    timeout_ms: int = parameter("How long to wait, in milliseconds; the round goes on afterwards.", default=300_000)


@dataclass(frozen=True)
class Output:
    """The one row it returns."""

    table: str = column("The table, as it is spelled.")
    outcome: str = column(
        "SUCCEEDED, EMPTY (nothing to do); WAITING or RUNNING if the call did not wait for the end; PLANNED for a dry run."
    )
    reason: str | None = column("Why it is not done; NULL if it is.")
    round_id: str | None = column("The upkeep round; NULL if none was needed.")
    manifests_before: int | None = column("Manifests of the newest snapshot before; NULL = not known.")
    manifests_after: int | None = column("Manifests of the newest snapshot afterwards; NULL = not known.")


@procedure(NAME, Parameters, Output, comment="Merges the manifests of a lake table, now.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[Progress | Output]:
    path = await find_path(call, arguments.table)
    steps = call.perform_with_progress(RewriteManifests(path, arguments.wait, arguments.timeout_ms))
    async with aclosing(steps):
        async for step in steps:
            yield step if isinstance(step, Progress) else output_of(step)


def output_of(result: UpkeepResult) -> Output:
    """The row of a result."""
    stats = result.stats
    return Output(str(result.path), result.outcome.value, result.reason, result.round_id, stats.manifests_before, stats.manifests_after)
