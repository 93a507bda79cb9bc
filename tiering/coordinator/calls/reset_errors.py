"""`CALL sys.reset_errors`: resets a table's count of errors."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.coordinator.calls.effects import CallParts, Pool, effect
from tiering.coordinator.calls.record_change import change_record
from tiering.coordinator.decisions import operator_requests
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.requests import Mutation
from tiering.model.call_results import ResetResult
from tiering.model.tables import TablePath


@dataclass(frozen=True)
class ResetErrors(Mutation[ResetResult]):
    """Arguments of the call (docs/reference.md)."""

    procedure = "reset_errors"
    result_class = ResetResult
    path: TablePath


@effect(ResetErrors, pool=Pool.STORE)
def reset_errors(parts: CallParts, request: ResetErrors) -> ResetResult:
    """Resets the count. Raises the errors of `change_record`."""

    def decide(ctx: Context, record: TableRecord) -> tuple[Change, ResetResult]:
        return operator_requests.reset_errors(ctx, record), ResetResult(request.path, record.error_count)

    return change_record(parts, request, request.path, decide)
