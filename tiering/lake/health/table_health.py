"""`TableHealth`: how good a lake table is to read. Its fields are the columns of `sys.lake_table_health`, declared here once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tiering.lake.health.measure import LakeMeasure
from tiering.lake.health.score import POOR_SCORE, HealthScore, score_of
from tiering.lake.rules.upkeep.small_files import SMALL_FILES, SMALL_SHARE
from tiering.model.columns import INT, column


@dataclass(frozen=True)
class HealthObservation:
    """What was read of a lake table at `observed_time`, and its score; both are None if there was no lake table."""

    observed_time: datetime
    measure: LakeMeasure | None = None
    health: HealthScore | None = None

    @classmethod
    def of(cls, observed_time: datetime, measure: LakeMeasure) -> HealthObservation:
        """The observation of a lake table, with its score."""
        return cls(observed_time, measure, score_of(measure))


@dataclass(frozen=True)
class TableHealth:
    """One lake table as it was observed last. None = unknown, or there is none, as the comment says."""

    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    table_id: int = column("Id of the table, never reused.")
    lake_format: str = column("Format of its lake table, such as iceberg.")
    score: int | None = column("Health from 0 to 100; a freshly compacted table has 100. NULL until it was observed.", arrow_type=INT)
    reason: str | None = column("What lowers the score, the worst first, or why there is no score; NULL at 100.")
    data_files: int | None = column("Data files that a scan of the newest snapshot opens.")
    small_files: int | None = column(
        f"Data files below {SMALL_SHARE:.0%} of target_file_bytes, or of half of what an upkeep round rewrites within the freshness; "
        "in a Paimon primary-key table all files of level 0, too. "
        f"{SMALL_FILES} in each bucket are healthy beside the one that a compaction leaves."
    )
    average_file_bytes: int | None = column("Average size of the data files; NULL without data files.")
    target_file_bytes: int | None = column("Size at which a writer of the lake table ends a data file.")
    delete_files: int | None = column("Files that say which rows are deleted; 0 in Paimon.")
    dead_row_share: float | None = column(
        "Part of the rows in data files that are deleted, from 0 to 1; NULL with equality deletes, and in a Paimon primary-key table with "
        "rows that readers merge."
    )
    snapshots: int | None = column("Snapshots that the lake table has.")
    oldest_snapshot_time: datetime | None = column("When the oldest of them was committed; NULL without snapshots.")
    manifests: int | None = column("Manifests of the newest snapshot.")
    metadata_files: int | None = column("Files in the folders of the metadata, also those that nothing names any more.")
    metadata_bytes: int | None = column("Their size.")
    rewrite_bytes: int | None = column("Bytes of the data files that a compaction would rewrite now.")
    last_upkeep_time: datetime | None = column(
        "When upkeep of the table last ended, also inside a tiering round; NULL if none is recorded."
    )
    last_upkeep_outcome: str | None = column("How that ended: SUCCEEDED, EMPTY, DROPPED, CANCELLED or FAILED, as in lake_upkeep.")
    next_upkeep_time: datetime | None = column(
        "Earliest time of the next upkeep round; NULL if nothing is to be done, or if it is not known."
    )
    upkeep_waits_for: str | None = column("What that round waits for, in words; NULL if nothing is to be done, or if it is not known.")
    upkeep_paused_by: str | None = column("Who paused the upkeep of the table; NULL if it is not paused.")
    next_action: str | None = column(
        f"The one statement that helps, below a score of {POOR_SCORE}. Upkeep does the same by itself once a slot is free; the statement "
        "does it now, or says what hinders it. NULL for a healthy table."
    )
    observed_time: datetime | None = column("When the lake table was looked at; NULL before the first look.")


@dataclass(frozen=True)
class UpkeepState:
    """What is known of a table's upkeep: the fields of `TableHealth` with upkeep in their names."""

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
) -> TableHealth:
    """The health of a table as observed last. `unknown_reason` says why nothing was observed; None = it was not observed yet."""
    if observation is None or observation.measure is None or observation.health is None:
        reason = unknown_reason if observation is None else "there is no lake table of this name"
        values: dict[str, Any] = dict.fromkeys(TableHealth.__dataclass_fields__)
        values |= {"database_name": database_name, "table_name": table_name, "table_id": table_id, "lake_format": lake_format}
        values |= {"reason": reason, "observed_time": None if observation is None else observation.observed_time, **vars(upkeep)}
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
        observed_time=observation.observed_time,
        **vars(upkeep),
    )
