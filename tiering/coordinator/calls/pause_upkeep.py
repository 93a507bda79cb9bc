"""`CALL sys.pause_upkeep`: a table gets no upkeep until its upkeep is resumed. Its tiering continues."""

from __future__ import annotations

from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.record_change import change_record, pause_result
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.upkeep import requests as upkeep
from tiering.procedures.pause_upkeep import PauseUpkeep, PauseUpkeepResult


def pause_upkeep(parts: CallParts, request: PauseUpkeep) -> PauseUpkeepResult:
    """Pauses the upkeep. Raises the errors of `change_record`."""

    def decide(ctx: Context, record: TableRecord) -> tuple[Change, PauseUpkeepResult]:
        change = upkeep.pause_upkeep(ctx, record, request.reason)
        return change, pause_result(PauseUpkeepResult, change, record.upkeep.pause, change.record.upkeep.pause)

    return change_record(parts, request, request.path, decide)
