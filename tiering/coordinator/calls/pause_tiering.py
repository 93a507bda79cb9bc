"""`CALL sys.pause_tiering`: a table is not assigned until it is resumed. A running round ends normally."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tiering import errors
from tiering.coordinator.calls.effects import CallParts, Pool, effect
from tiering.coordinator.calls.record_change import change_record
from tiering.coordinator.decisions import operator_requests
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.requests import Mutation
from tiering.model.call_results import PauseResult
from tiering.model.tables import TablePath


@dataclass(frozen=True)
class PauseTiering(Mutation[PauseResult]):
    """Arguments of the call (docs/reference.md). `until` None: until a user resumes the table."""

    procedure = "pause_tiering"
    result_class = PauseResult
    free_words = ("reason",)
    path: TablePath
    reason: str | None = None
    until: datetime | None = None


@effect(PauseTiering, pool=Pool.STORE)
def pause_tiering(parts: CallParts, request: PauseTiering) -> PauseResult:
    """Pauses the table. Raises InvalidArgument for an `until` in the past, and the errors of `change_record`."""
    until = request.until
    if until is not None and until <= parts.table_records.now().wall and parts.operations.answer(request) is None:
        raise errors.InvalidArgument(f"the pause would have ended already: until is {until.isoformat()}")

    def decide(ctx: Context, record: TableRecord) -> tuple[Change, PauseResult]:
        change = operator_requests.pause(ctx, record, request.reason, until)
        return change, pause_result(record, change)

    return change_record(parts, request, request.path, decide)


def pause_result(before: TableRecord, change: Change) -> PauseResult:
    """Returns the effect of a change on the table's pause."""
    after = change.record
    assert after.state is not None
    return PauseResult(after.path, before.pause is not None, after.pause is not None, after.state.value)
