"""Calls whose whole effect is a pure decision about one table's record, stored in one write with their answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.memory.idempotency import DecisionOutcome
from tiering.model.tables import TablePath
from tiering.procedures.base import Mutation, PauseResult, ResultT

PauseT = TypeVar("PauseT", bound=PauseResult)
Decision = Callable[[Context, TableRecord], tuple[Change, ResultT]]


def change_record(parts: CallParts, request: Mutation[ResultT], path: TablePath, decide: Decision[ResultT]) -> ResultT:
    """Applies `decide` to the table with this path, once per idempotency key, and not at all for a dry run.

    `decide` runs under the records' lock and must not block. Raises UnknownTable, UnknownDatabase, LakeDisabled, InvalidArgument.
    """
    if (earlier := parts.operations.answer(request)) is not None:
        return earlier  # even if the table was dropped since, or the cluster does not answer
    table_id = lake_table_id(parts, path)

    def decision() -> DecisionOutcome[ResultT]:
        record = living_record(parts, path, table_id)
        change, result = decide(parts.table_records.context(request.caller), record)
        return DecisionOutcome(result, (change,), table_id)

    return parts.operations.once(request, decision)


def lake_table_record(parts: CallParts, path: TablePath) -> TableRecord:
    """Returns the record of the lake table with this path. Raises UnknownTable, UnknownDatabase, LakeDisabled, ClusterUnavailable."""
    return living_record(parts, path, lake_table_id(parts, path))


def living_record(parts: CallParts, path: TablePath, table_id: int) -> TableRecord:
    """Returns the record of a table. Raises UnknownTable once it is dropped or its lake disabled."""
    record = parts.table_records.get(table_id)
    if record is None:
        raise errors.UnknownTable(f"{path} is not a lake table any more", table_id=table_id)
    return record


def lake_table_id(parts: CallParts, path: TablePath) -> int:
    """Returns the id of the lake table with this path, even if it is new. Raises like `lake_table_record`."""
    info = parts.cluster.table(path)
    if not info.lake_enabled:
        raise errors.LakeDisabled(f"{path} has its lake disabled", table_id=info.table_id)
    if parts.table_records.get(info.table_id) is None:
        parts.discovery.run()
    return info.table_id


def pause_result(result_class: type[PauseT], before: TableRecord, change: Change) -> PauseT:
    """Returns the effect of a change on the table's pause."""
    after = change.record
    assert after.state is not None
    return result_class(after.path, before.pause is not None, after.pause is not None, after.state.value)


def upkeep_pause_result(result_class: type[PauseT], before: TableRecord, change: Change) -> PauseT:
    """Returns the effect of a change on the pause of the table's upkeep."""
    after = change.record
    assert after.state is not None
    return result_class(after.path, before.upkeep.pause is not None, after.upkeep.pause is not None, after.state.value)
