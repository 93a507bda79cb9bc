"""`CALL sys.cancel_tiering`: ends a running round without a commit, unless its commit was already granted (DESIGN 6 step 6)."""

from __future__ import annotations

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.decisions import operator_requests
from tiering.coordinator.memory.idempotency import DecisionOutcome
from tiering.model.rounds import RoundState
from tiering.procedures.cancel_tiering import CancelOutcome, CancelTiering, CancelTieringResult


def cancel_tiering(parts: CallParts, request: CancelTiering) -> CancelTieringResult:
    """Cancels the round. Raises InvalidArgument for a round that no tierer has begun."""
    return parts.operations.once(request, lambda: _decision(parts, request))


def _decision(parts: CallParts, request: CancelTiering) -> DecisionOutcome[CancelTieringResult]:
    records = parts.table_records
    record = next((record for record in records.live() if record.round is not None and record.round.round_id == request.round_id), None)
    round_record = records.store.round(request.round_id) if record is None else record.round
    if round_record is None:
        return DecisionOutcome(CancelTieringResult(request.round_id, None, CancelOutcome.UNKNOWN))
    if round_record.state is RoundState.QUEUED:
        raise errors.InvalidArgument(
            f"round {request.round_id} of {round_record.database_name}.{round_record.table_name} has not begun",
            hint="CALL sys.pause_tiering keeps a table's rounds from beginning.",
            round_id=request.round_id,
        )
    change = None if record is None else operator_requests.cancel(records.context(request.caller), record, request.message)
    outcome = CancelOutcome.TOO_LATE if change is None else CancelOutcome.CANCELLED
    result = CancelTieringResult(request.round_id, round_record.state.value, outcome)
    return DecisionOutcome(result, () if change is None else (change,), round_record.table_id)
