"""`CALL sys.resume_upkeep`: ends a pause of upkeep."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.coordinator.calls.effects import CallParts, Pool, effect
from tiering.coordinator.calls.record_change import change_record
from tiering.coordinator.calls.upkeep.pause_upkeep import upkeep_pause_result
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.upkeep import requests as upkeep
from tiering.coordinator.requests import Mutation
from tiering.model.call_results import PauseResult
from tiering.model.tables import TablePath


@dataclass(frozen=True)
class ResumeUpkeep(Mutation[PauseResult]):
    """Arguments of the call (docs/reference.md)."""

    procedure = "resume_upkeep"
    result_class = PauseResult
    path: TablePath


@effect(ResumeUpkeep, pool=Pool.STORE)
def resume_upkeep(parts: CallParts, request: ResumeUpkeep) -> PauseResult:
    """Ends the pause. Raises the errors of `change_record`."""

    def decide(ctx: Context, record: TableRecord) -> tuple[Change, PauseResult]:
        change = upkeep.resume_upkeep(ctx, record)
        return change, upkeep_pause_result(record, change)

    return change_record(parts, request, request.path, decide)
