"""`CALL sys.resume_tiering`: ends a pause."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.coordinator.calls.effects import CallParts, Pool, effect
from tiering.coordinator.calls.pause_tiering import pause_result
from tiering.coordinator.calls.record_change import change_record
from tiering.coordinator.decisions import operator_requests
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.requests import Mutation
from tiering.model.call_results import PauseResult
from tiering.model.tables import TablePath


@dataclass(frozen=True)
class ResumeTiering(Mutation[PauseResult]):
    """Arguments of the call (docs/reference.md)."""

    procedure = "resume_tiering"
    result_class = PauseResult
    free_words = ("reason",)
    path: TablePath
    reason: str | None = None


@effect(ResumeTiering, pool=Pool.STORE)
def resume_tiering(parts: CallParts, request: ResumeTiering) -> PauseResult:
    """Ends the pause. Raises the errors of `change_record`."""

    def decide(ctx: Context, record: TableRecord) -> tuple[Change, PauseResult]:
        change = operator_requests.resume(ctx, record, request.reason)
        return change, pause_result(record, change)

    return change_record(parts, request, request.path, decide)
