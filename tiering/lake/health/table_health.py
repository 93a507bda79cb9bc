"""`TableHealth`: the health of a lake table for its readers. Its fields are the columns of `sys.lake_table_health`, declared only here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tiering.lake.health.measure import LakeMeasure
from tiering.lake.health.score import POOR_SCORE, HealthScore, score_of
from tiering.lake.rules.upkeep.small_files import SMALL_FILES, SMALL_SHARE
from tiering.model.declare import INT, column
from tiering.model.sql_types import column_list


@dataclass(frozen=True)
class HealthObservation:
    """The measures of a lake table at `observed_time`, and its score. Both are None if there was no lake table."""

    observed_time: datetime
    measure: LakeMeasure | None = None
    health: HealthScore | None = None

    @classmethod
    def of(cls, observed_time: datetime, measure: LakeMeasure) -> HealthObservation:
        """Returns the observation of a lake table, with its score."""
        return cls(observed_time, measure, score_of(measure))


@dataclass(frozen=True)
class TableHealth:
    """The last observation of one lake table. None = unknown or absent, as each column's comment says."""

    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    table_id: int = column("Id of the table, never reused.")
    lake_format: str = column("Format of its lake table, such as iceberg.")
    score: int | None = column("Health from 0 to 100; a freshly compacted table has 100. NULL until it was observed.", arrow_type=INT)
    reason: str | None = column("Reasons that lower the score, the worst first, or why there is no score; NULL at 100.")
    data_files: int | None = column("Data files that a scan of the newest snapshot opens.")
    small_files: int | None = column(
        f"Data files below {SMALL_SHARE:.0%} of target_file_bytes, or of half of what an upkeep round rewrites within the freshness; "
        "in a Paimon primary-key table also all files of level 0. "
        f"{SMALL_FILES} in each bucket are healthy, plus the one that a compaction leaves."
    )
    average_file_bytes: int | None = column("Average size of the data files; NULL without data files.")
    target_file_bytes: int | None = column("Size at which a writer of the lake table ends a data file.")
    delete_files: int | None = column("Delete files, which name deleted rows; 0 in Paimon.")
    dead_row_share: float | None = column(
        "Share of deleted rows in the data files, from 0 to 1; NULL with equality deletes, and in a Paimon primary-key table with "
        "rows that readers merge."
    )
    snapshots: int | None = column("Snapshots of the lake table.")
    oldest_snapshot_time: datetime | None = column("Commit time of the oldest snapshot; NULL without snapshots.")
    manifests: int | None = column("Manifests of the newest snapshot.")
    metadata_files: int | None = column("Files in the metadata folders, including those that no snapshot names.")
    metadata_bytes: int | None = column("Size of the metadata files in bytes.")
    rewrite_bytes: int | None = column("Bytes of the data files that a compaction would rewrite now.")
    last_upkeep_time: datetime | None = column(
        "Time when upkeep of the table last ended, also inside a tiering round; NULL if none is recorded."
    )
    last_upkeep_outcome: str | None = column("Outcome of that upkeep: SUCCEEDED, EMPTY, DROPPED, CANCELLED or FAILED, as in lake_upkeep.")
    next_upkeep_time: datetime | None = column("Earliest time of the next upkeep round; NULL if there is no work, or if it is unknown.")
    upkeep_waits_for: str | None = column("Reason why that round waits; NULL if there is no work, or if it is unknown.")
    upkeep_paused_by: str | None = column("User who paused the upkeep of the table; NULL if it is not paused.")
    next_action: str | None = column(
        f"The one statement that helps below a score of {POOR_SCORE}. Upkeep does the same without it once a slot is free. The statement "
        "does it now, or shows what prevents it. NULL for a healthy table."
    )
    lake_schema: str | None = column("Columns of the lake table, as in a CREATE TABLE; NULL before the first observation.")
    observed_time: datetime | None = column("Time when the lake table was last observed; NULL before the first observation.")
    published_snapshot_id: int | None = column(
        "Newest tiering commit that the second catalog (--publish) has; NULL without one, and until the coordinator has compared it."
    )
    published_time: datetime | None = column("Time when the second catalog was last known to have the lake table's newest version.")
    publish_lag_ms: int | None = column(
        "For how long the second catalog has lacked a tiering commit; 0 if it lacks none, NULL if that is unknown."
    )
    publish_error: str | None = column("Why the table is not published in the second catalog; NULL if it is, and without such a catalog.")


@dataclass(frozen=True)
class Publication:
    """State of a lake table in the second catalog: the fields of `TableHealth` about it, without their prefix."""

    snapshot_id: int | None = None
    time: datetime | None = None
    lag_ms: int | None = None
    error: str | None = None

    def columns(self) -> dict[str, Any]:
        """Returns the values by the names of the columns."""
        return {
            "published_snapshot_id": self.snapshot_id,
            "published_time": self.time,
            "publish_lag_ms": self.lag_ms,
            "publish_error": self.error,
        }


@dataclass(frozen=True)
class UpkeepState:
    """The state of a table's upkeep: the fields of `TableHealth` with upkeep in their names."""

    last_upkeep_time: datetime | None = None
    last_upkeep_outcome: str | None = None
    next_upkeep_time: datetime | None = None
    upkeep_waits_for: str | None = None
    upkeep_paused_by: str | None = None


def table_health(
    database_name: str,
    table_name: str,
    table_id: int,
    lake_format: str,
    observation: HealthObservation | None,
    unknown_reason: str | None,
    upkeep: UpkeepState = UpkeepState(),
    next_action: str | None = None,
    publication: Publication | None = None,
) -> TableHealth:
    """Returns the health of a table from its last observation. `unknown_reason` says why there is none; None = not observed yet."""
    published = (publication or Publication()).columns()
    if observation is None or observation.measure is None or observation.health is None:
        reason = unknown_reason if observation is None else "there is no lake table of this name"
        values: dict[str, Any] = dict.fromkeys(TableHealth.__dataclass_fields__)
        values |= {"database_name": database_name, "table_name": table_name, "table_id": table_id, "lake_format": lake_format}
        values |= {"reason": reason, "observed_time": None if observation is None else observation.observed_time, **vars(upkeep)}
        values |= published
        return TableHealth(**values)
    measure, health = observation.measure, observation.health
    files = measure.files
    return TableHealth(
        database_name=database_name,
        table_name=table_name,
        table_id=table_id,
        lake_format=lake_format,
        score=health.score,
        reason=health.reason,
        data_files=files.data_files,
        small_files=files.small_files,
        average_file_bytes=files.average_bytes,
        target_file_bytes=files.target_bytes,
        delete_files=files.delete_files,
        dead_row_share=files.dead_share,
        snapshots=measure.snapshots,
        oldest_snapshot_time=measure.oldest_snapshot_time,
        manifests=measure.manifests,
        metadata_files=measure.metadata_files,
        metadata_bytes=measure.metadata_bytes,
        rewrite_bytes=files.rewrite_bytes,
        next_action=next_action,
        lake_schema=None if measure.columns is None else column_list(measure.columns),
        observed_time=observation.observed_time,
        **vars(upkeep),
        **published,
    )
