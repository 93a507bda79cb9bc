"""`CALL sys.pause_tiering`: a table is not assigned until it is resumed. A running round ends normally."""

from __future__ import annotations

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import change_record, pause_result
from tiering.coordinator.decisions import operator_requests
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.records import TableRecord
from tiering.procedures.pause_tiering import PauseTiering, PauseTieringResult


def pause_tiering(parts: CallParts, request: PauseTiering) -> PauseTieringResult:
    """Pauses the table. Raises InvalidArgument for an `until` in the past, and the errors of `change_record`."""
    until = request.until
    if until is not None and until <= parts.table_records.now().wall and parts.operations.answer(request) is None:
        raise errors.InvalidArgument(f"the pause would have ended already: until is {until.isoformat()}")

    def decide(ctx: Context, record: TableRecord) -> tuple[Change, PauseTieringResult]:
        change = operator_requests.pause(ctx, record, request.reason, until)
        return change, pause_result(PauseTieringResult, change, record.pause, change.record.pause)

    return change_record(parts, request, request.path, decide)
