"""Common parts of the calls about one table: its record, a pure decision about it that is stored with the answer, and the call's event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.records import EventRecord, Level, TableRecord
from tiering.coordinator.memory.idempotency import DecisionOutcome
from tiering.model.tables import TableInfo, TablePath
from tiering.procedures.base import Mutation, PauseResult, ResultT

PauseT = TypeVar("PauseT", bound=PauseResult)
Decision = Callable[[Context, TableRecord], tuple[Change, ResultT]]


def change_record(parts: CallParts, request: Mutation[ResultT], path: TablePath, decide: Decision[ResultT]) -> ResultT:
    """Applies `decide` to the table with this path, once per idempotency key, and not at all for a dry run.

    `decide` runs under the records' lock and must not block. Raises UnknownTable, UnknownDatabase, LakeDisabled, InvalidArgument.
    """
    if (earlier := parts.operations.answer(request)) is not None:
        return earlier  # even if the table was dropped since, or the cluster does not answer
    table_id = lake_table(parts, path)[0].table_id

    def decision() -> DecisionOutcome[ResultT]:
        record = living_record(parts, path, table_id)
        change, result = decide(parts.table_records.context(request.caller), record)
        return DecisionOutcome(result, (change,), table_id)

    return parts.operations.once(request, decision)


def lake_table(parts: CallParts, path: TablePath) -> tuple[TableInfo, TableRecord]:
    """Returns the lake table with this path and its record, even if it is new.

    Raises UnknownTable, UnknownDatabase, LakeDisabled, ClusterUnavailable.
    """
    info = parts.cluster.table(path)
    if not info.lake_enabled:
        raise errors.LakeDisabled(f"{path} has its lake disabled", table_id=info.table_id)
    if parts.table_records.get(info.table_id) is None:
        parts.discovery.run()
    return info, living_record(parts, path, info.table_id)


def living_record(parts: CallParts, path: TablePath, table_id: int) -> TableRecord:
    """Returns the record of a table. Raises UnknownTable once it is dropped or its lake disabled."""
    record = parts.table_records.get(table_id)
    if record is None:
        raise table_dropped(path, table_id)
    return record


def table_dropped(path: TablePath, table_id: int) -> errors.UnknownTable:
    """Returns the error of a call about a table that was dropped or recreated, or whose lake was disabled, since the call began."""
    return errors.UnknownTable(f"{path} was dropped or recreated, or its lake was disabled", table_id=table_id)


def call_event(
    parts: CallParts,
    request: Mutation[Any],
    event_type: str,
    message: str,
    details: Mapping[str, Any],
    *,
    level: Level = Level.INFO,
    path: TablePath | None = None,
) -> EventRecord:
    """Returns the event of a call by its caller, at this moment. With `path` it is an event of that table."""
    return EventRecord(
        occurred_at=parts.table_records.now().wall,
        level=level,
        event_type=event_type,
        message=message,
        principal=request.caller,
        database_name=None if path is None else path.database_name,
        table_name=None if path is None else path.table_name,
        details=details,
    )


def pause_result(result_class: type[PauseT], change: Change, before: object, after: object) -> PauseT:
    """Returns the effect of a change on a pause, of the table or of its upkeep: `before` and `after` it, None = no pause."""
    assert change.record.state is not None
    return result_class(change.record.path, before is not None, after is not None, change.record.state.value)
