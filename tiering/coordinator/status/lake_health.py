"""The health of a lake table as it was observed last, beside what is on record of the table."""

from __future__ import annotations

from tiering.coordinator.decisions.records import TableRecord
from tiering.lake.health.table_health import HealthObservation, TableHealth, table_health


def health_of(record: TableRecord, observation: HealthObservation | None) -> TableHealth:
    """The row of the table. Before its first commit a lake table is not looked at."""
    reason = "Lakeward has not committed to the lake table yet" if record.lake.snapshot_id is None else None
    return table_health(record.database_name, record.table_name, record.table_id, record.lake_format, observation, reason)
