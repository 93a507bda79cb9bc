"""The column `next_action` of `sys.lake_table_health`: the one statement that helps an unhealthy lake table. Pure.

Upkeep does the same on its own, as soon as no table needs the slot. The statement does it at once and reports what prevents it. No such
statement changes a row.
"""

from __future__ import annotations

from tiering.coordinator.decisions.next_action import CatalogNames, failed_for_good
from tiering.coordinator.decisions.records import TableRecord
from tiering.lake.health.score import POOR_SCORE, SNAPSHOT_BOUND, Cause
from tiering.lake.health.table_health import HealthObservation

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
    """Returns the statement; None for a healthy table, and for one that was not observed."""
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
