"""`CALL sys.reset_errors`: resets a table's count of errors."""

from __future__ import annotations

from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import change_record
from tiering.coordinator.decisions import operator_requests
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.records import TableRecord
from tiering.procedures.reset_errors import ResetErrors, ResetErrorsResult


def reset_errors(parts: CallParts, request: ResetErrors) -> ResetErrorsResult:
    """Resets the count. Raises the errors of `change_record`."""

    def decide(ctx: Context, record: TableRecord) -> tuple[Change, ResetErrorsResult]:
        return operator_requests.reset_errors(ctx, record), ResetErrorsResult(request.path, record.error_count)

    return change_record(parts, request, request.path, decide)
