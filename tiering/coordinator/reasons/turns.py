"""`status_reason` where the cluster assigns tables: which service the table is assigned to, as far as this deployment knows."""

from __future__ import annotations

from tiering.coordinator.decisions.assignments import is_held, why_not_written
from tiering.coordinator.decisions.records import TableRecord
from tiering.model.states import TableState


def turn_reason(record: TableRecord, own_reason: str | None, lake_format: str) -> str | None:
    """Returns `own_reason`, extended by what follows from the assignment. `own_reason` is this deployment's reason for the state.

    `lake_format` is the format that this deployment writes.
    """
    if record.running is not None:
        return own_reason
    obstacle = why_not_written(record, lake_format)
    if obstacle is not None:
        return f"left to other tiering services: {obstacle}"
    if is_held(record):
        return f"held, so that no other service gets it: {own_reason}"
    if record.has_turn:
        return own_reason
    if record.pause is not None or record.state is TableState.FAILED:
        return f"{own_reason}; another service may get it meanwhile"
    return "waits for the cluster to assign it"
