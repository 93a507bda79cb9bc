"""`CALL sys.pause_upkeep`: a table gets no upkeep until its upkeep is resumed. Its tiering continues."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.coordinator.calls.effects import CallParts, Pool, effect
from tiering.coordinator.calls.record_change import change_record
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.upkeep import requests as upkeep
from tiering.coordinator.requests import Mutation
from tiering.model.call_results import PauseResult
from tiering.model.tables import TablePath


@dataclass(frozen=True)
class PauseUpkeep(Mutation[PauseResult]):
    """Arguments of the call (docs/reference.md)."""

    procedure = "pause_upkeep"
    result_class = PauseResult
    free_words = ("reason",)
    path: TablePath
    reason: str | None = None


@effect(PauseUpkeep, pool=Pool.STORE)
def pause_upkeep(parts: CallParts, request: PauseUpkeep) -> PauseResult:
    """Pauses the upkeep. Raises the errors of `change_record`."""

    def decide(ctx: Context, record: TableRecord) -> tuple[Change, PauseResult]:
        change = upkeep.pause_upkeep(ctx, record, request.reason)
        return change, upkeep_pause_result(record, change)

    return change_record(parts, request, request.path, decide)


def upkeep_pause_result(before: TableRecord, change: Change) -> PauseResult:
    """Returns the effect of a change on the pause of the table's upkeep."""
    after = change.record
    assert after.state is not None
    return PauseResult(after.path, before.upkeep.pause is not None, after.upkeep.pause is not None, after.state.value)
