"""`CALL sys.retry_tiering`: retries a failed table at once and resets its back-off, even after a permanent failure."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.coordinator.calls.effects import CallParts, Pool, effect
from tiering.coordinator.calls.record_change import change_record
from tiering.coordinator.decisions import reconciliation
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.requests import Mutation
from tiering.model.call_results import RetryResult
from tiering.model.states import TableState
from tiering.model.tables import TablePath


@dataclass(frozen=True)
class RetryTiering(Mutation[RetryResult]):
    """Arguments of the call (docs/reference.md)."""

    procedure = "retry_tiering"
    result_class = RetryResult
    path: TablePath


@effect(RetryTiering, pool=Pool.STORE)
def retry_tiering(parts: CallParts, request: RetryTiering) -> RetryResult:
    """Retries the table. Raises the errors of `change_record`."""

    def decide(ctx: Context, record: TableRecord) -> tuple[Change, RetryResult]:
        change = reconciliation.retry(ctx, record)
        after = change.record
        assert after.state is not None
        retry_at = after.retry_deadline if after.state is TableState.FAILED else None
        return change, RetryResult(request.path, after.state.value, ctx.now.to_wall(retry_at))

    return change_record(parts, request, request.path, decide)
