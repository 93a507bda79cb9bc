"""`CALL sys.tier_database`: runs `tier_table` for the tables of a database concurrently, and returns a row for each.

A table that cannot be tiered has a row with its error, and delays no other table. With an idempotency key the tables are chosen once. They
are stored under the key, and each table's call has a key derived from it, so that a repeat attaches to the same calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from functools import partial
from hashlib import sha256

from tiering import errors
from tiering.access.privileges import Privilege, Resource
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import call_event
from tiering.coordinator.calls.tier_table import tier_table
from tiering.coordinator.decisions.records import EventRecord, TableRecord
from tiering.counts import counted
from tiering.model.names import table_path
from tiering.model.rounds import RoundState
from tiering.model.states import TableState
from tiering.model.tables import TablePath
from tiering.name_matching import LikePattern
from tiering.procedures.base import Pool, Progress
from tiering.procedures.tier_database import TierDatabase, TierDatabaseResult, TierDatabaseRow
from tiering.procedures.tier_table import TierTable, TierTableResult

AT_ONCE = 64
"""Upper bound of tables of one call that are started or waited for at a time. It bounds memory; tierers do not notice it."""


_ENDED = frozenset(state.value for state in RoundState if state.is_final)

Tables = Mapping[str, int]
"""Ids of the chosen tables by path."""


async def tier_database(parts: CallParts, request: TierDatabase) -> AsyncGenerator[Progress | TierDatabaseResult, None]:
    """Tiers the tables. Closing it ends the wait, not the rounds. Raises UnknownDatabase, InvalidArgument, ClusterUnavailable."""
    since = parts.table_records.now().steady
    chosen = await parts.threads.run(Pool.LAKE_LOOK, partial(_begin, parts, request))
    if isinstance(chosen, TierDatabaseResult):
        yield _visible(parts, chosen)
        return
    slots = asyncio.Semaphore(AT_ONCE)
    calls = [asyncio.ensure_future(_tier(parts, request, since, slots, path, table_id)) for path, table_id in chosen.items()]
    try:
        for number, call in enumerate(asyncio.as_completed(calls), 1):
            row = await call
            if not parts.grants.current().sees(row.tiered.path):
                continue
            why = f": {row.error}" if row.error else ""
            yield Progress(
                f"{number} of {counted(len(calls), 'table')} of {request.database_name}: {row.tiered.path} is {row.tiered.state}{why}"
            )
        rows = tuple([await call for call in calls])
    finally:
        for call in calls:
            call.cancel()
    yield _visible(parts, await parts.threads.run(Pool.STORE, partial(_end, parts, request, TierDatabaseResult(rows))))


def _visible(parts: CallParts, result: TierDatabaseResult) -> TierDatabaseResult:
    """Returns the result without tables that the caller may no longer see, after a wait or in a repeat."""
    access = parts.grants.current()
    return TierDatabaseResult(tuple(row for row in result.rows if access.sees(row.tiered.path)))


def _begin(parts: CallParts, request: TierDatabase) -> TierDatabaseResult | Tables:
    """Returns the result of an earlier call with this key, or else its tables, or else the tables chosen now."""
    if (earlier := parts.operations.answer(request)) is not None:
        return earlier
    earlier_call = parts.operations.earlier_call(request)
    if earlier_call is not None:
        return earlier_call.targets
    chosen = _choose(parts, request)
    if request.dry_run:
        return chosen
    with parts.table_records.changing():
        if (earlier_call := parts.operations.earlier_call(request)) is not None:  # a call with the same key came first
            return earlier_call.targets
        operations = parts.operations.started_operations(request, None, goal={"targets": chosen})
        parts.table_records.put(operations=operations, events=[_event(parts, request, chosen)])
    return chosen


def _choose(parts: CallParts, request: TierDatabase) -> Tables:
    include = LikePattern(request.include or "%")
    exclude = None if request.exclude is None else LikePattern(request.exclude)
    infos = parts.cluster.tables(request.database_name)  # raises UnknownDatabase
    if any(info.lake_enabled and parts.table_records.get(info.table_id) is None for info in infos):
        parts.discovery.run()
    access = parts.grants.current()
    chosen: dict[str, int] = {}
    for info in infos:
        name, record = info.path.table_name, parts.table_records.get(info.table_id)
        if not access.sees(info.path):
            continue
        if record is None or not include.matches(name) or (exclude is not None and exclude.matches(name)):
            continue
        if not request.only_stale or _is_stale(parts, record):
            access.require(Privilege.TIER, Resource.of_table(info.path))
            chosen[str(info.path)] = info.table_id
    return chosen


def _is_stale(parts: CallParts, record: TableRecord) -> bool:
    """Returns whether the lake copy may lack rows. A failed table counts, because only a round can clear its failure."""
    if record.state is TableState.FAILED:
        return True
    lag = parts.observer.observe(record)
    return lag is None or lag.records > 0


async def _tier(
    parts: CallParts, request: TierDatabase, since: datetime, slots: asyncio.Semaphore, path: str, table_id: int
) -> TierDatabaseRow:
    """Returns the row of a table, once it is its turn. `timeout_ms` counts for the whole database from `since` (steady time)."""
    key = None
    if request.idempotency_key is not None and not request.dry_run:
        key = f"{sha256(request.idempotency_key.encode()).hexdigest()}/{table_id}"
    name = table_path(*path.split(".", 1))
    async with slots:
        left_ms = max(0, request.timeout_ms - parts.table_records.now().milliseconds_since(since))
        call = TierTable(name, request.wait, left_ms, dry_run=request.dry_run, idempotency_key=key, caller=request.caller)
        try:
            steps = tier_table(parts, call)
            async with aclosing(steps):
                [result] = [step async for step in steps if isinstance(step, TierTableResult)]
            return TierDatabaseRow(result)
        except errors.LakewardError as error:
            if parts.table_records.fenced is not None:
                raise
            return TierDatabaseRow(_failed(parts, name, table_id), error.message)


def _failed(parts: CallParts, path: TablePath, table_id: int) -> TierTableResult:
    """Returns the row of a table whose call ended with an error, with the table's state."""
    record = parts.table_records.get(table_id)
    state = record.state.value if record is not None and record.state is not None else "Gone"
    epoch = 0 if record is None else record.tiering_epoch
    return TierTableResult(path, None, state, epoch, None, None, None, None, None, None, None, 0)


def _end(parts: CallParts, request: TierDatabase, result: TierDatabaseResult) -> TierDatabaseResult:
    """Stores the answer of a call that waited until every table was done. A call that gave up has no answer yet."""
    is_done = all(row.error is not None or row.tiered.state in _ENDED for row in result.rows)
    if request.idempotency_key is not None and not request.dry_run and is_done:
        with parts.table_records.changing():
            parts.table_records.put(operations=parts.operations.done(request, None, result))
    return result


def _event(parts: CallParts, request: TierDatabase, chosen: Tables) -> EventRecord:
    message = f"CALL by {request.caller}: {counted(len(chosen), 'table')} of {request.database_name}"
    details = {"include": request.include, "exclude": request.exclude, "only_stale": request.only_stale}
    return replace(call_event(parts, request, "DATABASE_CALLED", message, details), database_name=request.database_name)
