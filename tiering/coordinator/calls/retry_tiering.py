"""`CALL sys.retry_tiering`: retries a failed table at once and resets its back-off, even after a permanent failure."""

from __future__ import annotations

from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import change_record
from tiering.coordinator.decisions import reconciliation
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.records import TableRecord
from tiering.model.states import TableState
from tiering.procedures.retry_tiering import RetryTiering, RetryTieringResult


def retry_tiering(parts: CallParts, request: RetryTiering) -> RetryTieringResult:
    """Retries the table. Raises the errors of `change_record`."""

    def decide(ctx: Context, record: TableRecord) -> tuple[Change, RetryTieringResult]:
        change = reconciliation.retry(ctx, record)
        after = change.record
        assert after.state is not None
        retry_at = after.retry_deadline if after.state is TableState.FAILED else None
        return change, RetryTieringResult(request.path, after.state.value, ctx.now.to_wall(retry_at))

    return change_record(parts, request, request.path, decide)
