"""`CALL sys.resume_tiering`: ends a pause."""

from __future__ import annotations

from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import change_record, pause_result
from tiering.coordinator.decisions import operator_requests
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.records import TableRecord
from tiering.procedures.resume_tiering import ResumeTiering, ResumeTieringResult


def resume_tiering(parts: CallParts, request: ResumeTiering) -> ResumeTieringResult:
    """Ends the pause. Raises the errors of `change_record`."""

    def decide(ctx: Context, record: TableRecord) -> tuple[Change, ResumeTieringResult]:
        change = operator_requests.resume(ctx, record, request.reason)
        return change, pause_result(ResumeTieringResult, change, record.pause, change.record.pause)

    return change_record(parts, request, request.path, decide)
