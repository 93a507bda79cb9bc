"""The row of `sys.lake_table_health`: the last observed health of a lake table, and what is recorded about its upkeep."""

from __future__ import annotations

from tiering.coordinator.decisions.next_action import CatalogNames
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.upkeep.health_action import health_action
from tiering.coordinator.observing.upkeep_needs import UpkeepExplanation
from tiering.lake.health.table_health import HealthObservation, TableHealth, UpkeepState, table_health


def health_of(
    record: TableRecord, observation: HealthObservation | None, explanation: UpkeepExplanation | None, names: CatalogNames
) -> TableHealth:
    """Returns the row of the table. A lake table is not read before Lakeward's first commit. `explanation` is None if no coordinator runs.

    `names` are the reader's catalog names.
    """
    reason = "Lakeward has not committed to the lake table yet" if record.lake.snapshot_id is None else None
    return table_health(
        record.database_name,
        record.table_name,
        record.table_id,
        record.lake_format,
        observation,
        reason,
        _upkeep_state(record, explanation),
        health_action(record, observation, names),
    )


def _upkeep_state(record: TableRecord, explanation: UpkeepExplanation | None) -> UpkeepState:
    upkeep = record.upkeep
    is_needed = explanation is not None and explanation.order is not None
    return UpkeepState(
        last_upkeep_time=upkeep.last_time,
        last_upkeep_outcome=None if upkeep.last_outcome is None else upkeep.last_outcome.value,
        next_upkeep_time=explanation.next_time if explanation is not None and is_needed else None,
        upkeep_waits_for=explanation.waits_for if explanation is not None and is_needed else None,
        upkeep_paused_by=None if upkeep.pause is None else upkeep.pause.by,
    )
