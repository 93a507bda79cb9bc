"""CALL sys.tier_database: brings the lake copies of a database's tables up to now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from sys_tables.declare.columns import column
from sys_tables.declare.parameters import parameter
from sys_tables.declare.procedure import Call, procedure
from sys_tables.procedures import tier_table
from sys_tables.query.lookup import resolve_database
from tiering.coordinator.calls.freshness.tier_database import TierDatabase
from tiering.errors import UnknownDatabase
from tiering.model.call_results import Progress

NAME = "tier_database"


@dataclass(frozen=True)
class Parameters:
    """Its arguments."""

    database: str = parameter("The database.")
    include: str | None = parameter("Only tables whose name is LIKE this pattern; NULL = all.", default=None)
    exclude: str | None = parameter("No table whose name is LIKE this pattern.", default=None)
    only_stale: bool = parameter("Whether tables whose lake copy lacks no row are left out.", default=True)
    wait: bool = parameter("Whether to wait until the lake has every row written before the call.", default=True)
    timeout_ms: int = parameter("How long to wait, in milliseconds; the rounds go on afterwards.", default=300_000)


@dataclass(frozen=True)
class Output(tier_table.Output):
    """A row a table, as of tier_table."""

    error: str | None = column("Why the table could not be tiered: `state` then is the table's; NULL = nothing is wrong.")


@procedure(NAME, Parameters, Output, comment="Tiers the tables of a database now, and waits until the lake has caught up.", mutates=True)
async def run(call: Call, arguments: Parameters) -> AsyncIterator[Progress | Output]:
    request = TierDatabase(
        await _find_database(call, arguments.database),
        arguments.include,
        arguments.exclude,
        arguments.only_stale,
        arguments.wait,
        arguments.timeout_ms,
    )
    steps = call.perform_with_progress(request)
    async with aclosing(steps):
        async for step in steps:
            if isinstance(step, Progress):
                yield step
                continue
            for row in step.rows:
                yield Output(**vars(tier_table.output_of(row.tiered)), error=row.error)


async def _find_database(call: Call, name: str) -> str:
    """As it is spelled. A repeat gets its answer also when the database is gone by now. Raises UnknownDatabase."""
    try:
        return await asyncio.to_thread(resolve_database, call.handle.view(), name)
    except UnknownDatabase:
        key = call.options.idempotency_key
        if key is None or call.options.dry_run or not await call.handle.control.knows(key, call.caller):
            raise
        return name
