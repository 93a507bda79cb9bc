"""`CALL sys.resume_upkeep`: ends a pause of upkeep."""

from __future__ import annotations

from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import change_record, pause_result
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.upkeep import requests as upkeep
from tiering.procedures.resume_upkeep import ResumeUpkeep, ResumeUpkeepResult


def resume_upkeep(parts: CallParts, request: ResumeUpkeep) -> ResumeUpkeepResult:
    """Ends the pause. Raises the errors of `change_record`."""

    def decide(ctx: Context, record: TableRecord) -> tuple[Change, ResumeUpkeepResult]:
        change = upkeep.resume_upkeep(ctx, record)
        return change, pause_result(ResumeUpkeepResult, change, record.upkeep.pause, change.record.upkeep.pause)

    return change_record(parts, request, request.path, decide)
