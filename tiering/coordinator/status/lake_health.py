"""The row of `sys.lake_table_health`: the last observed health of a lake table, and what is recorded about its upkeep."""

from __future__ import annotations

from tiering.coordinator.decisions.next_action import CatalogNames, failed_for_good
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.observing.upkeep_needs import UpkeepExplanation
from tiering.lake.health.score import POOR_SCORE, SNAPSHOT_BOUND, Cause
from tiering.lake.health.table_health import HealthObservation, Publication, TableHealth, UpkeepState, table_health


def health_of(
    record: TableRecord,
    observation: HealthObservation | None,
    explanation: UpkeepExplanation | None,
    names: CatalogNames,
    publication: Publication | None = None,
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
        publication,
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


_AGAINST = {
    Cause.SMALL_FILES: "rewrite_data_files",
    Cause.DEAD_ROWS: "rewrite_data_files",
    Cause.DELETE_FILES: "rewrite_data_files",
    Cause.MANIFESTS: "rewrite_manifests",
    Cause.SNAPSHOTS: "expire_snapshots",
}
"""The procedure against each cause of a low score."""

REPEATED = 3
"""After this many consecutive failures, upkeep will not succeed without help."""


def health_action(record: TableRecord, observation: HealthObservation | None, names: CatalogNames) -> str | None:
    """Returns the one statement that helps an unhealthy lake table; None for a healthy table, and for one that was not observed.

    Upkeep does the same on its own, as soon as no table needs the slot. The statement does it at once and reports what prevents it. No such
    statement changes a row.
    """
    if observation is None or observation.health is None or observation.health.score >= POOR_SCORE:
        return None
    return f"CALL {names.catalog}.sys.{_procedure(record, observation)}('{record.path}')"


def _procedure(record: TableRecord, observation: HealthObservation) -> str:
    if record.upkeep.pause is not None:
        return "resume_upkeep"
    if record.pause is not None or failed_for_good(record) is not None or record.upkeep.failures >= REPEATED:
        return "explain_upkeep"  # a procedure that rewrites would be refused, or fail again
    cause = None if observation.health is None else observation.health.cause
    if cause is Cause.METADATA:
        snapshots = 0 if observation.measure is None else observation.measure.snapshots
        return "expire_snapshots" if snapshots > SNAPSHOT_BOUND else "remove_orphan_files"
    return "explain_upkeep" if cause is None else _AGAINST[cause]
