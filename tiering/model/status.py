"""`TableStatus`: how the tiering of one lake table stands. Its fields are the columns of `sys.lake_tiering_status`, declared here once.

Beside a field here, a column has a field of the same name in `proto/tiering/rpc/v1/status.proto` and a line that computes it in
`tiering/coordinator/status/cells.py`. A test compares the three.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tiering.model.columns import INT, column
from tiering.model.states import LASTING

_STATES = f"{', '.join(LASTING[:-1])} or {LASTING[-1]}"


@dataclass(frozen=True)
class TableStatus:
    """One lake table at `observed_time`. None = unknown, or there is none, as the comment says."""

    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    status: str = column(f"State of its tiering: {_STATES}. At rest it is Scheduled, after a commit too.")
    tiering_epoch: int = column("Number of its latest entry to Pending; it only grows.")
    last_tiered_time: datetime | None = column("When a round last brought rows to the lake; NULL before the first.")
    last_error: str | None = column("Message of the error of the latest round; NULL after a success, unless a bucket stops at a record.")
    last_error_time: datetime | None = column("When that error was reported.")
    table_id: int = column("Id of the table, never reused.")
    table_type: str = column("LOG or PRIMARY_KEY.")
    lake_format: str = column("Format of its lake table, such as iceberg.")
    status_since: datetime = column("When it entered this state.")
    status_reason: str | None = column("Why it waits in this state.")
    status_source: str = column(
        "Where this row comes from: coordinator, its own record of the table; derived, from lake snapshots that another tiering service "
        "has told the cluster of."
    )
    freshness_ms: int = column("The promise: its lake copy is at most this many milliseconds old.")
    lag_ms: int | None = column("Age of the oldest row that is not in the lake yet, in milliseconds; 0 if there is none.")
    freshness_deadline: datetime | None = column("When the promise is broken unless the lake catches up.")
    pending_records: int | None = column("Records of the log that are not in the lake yet.")
    pending_bytes: int | None = column("Their estimated size in bytes.")
    oldest_pending_time: datetime | None = column("When the oldest of them was written.")
    offsets_observed_time: datetime | None = column("When the log's offsets were last read.")
    is_backlog: bool | None = column(
        "Whether tiering works through what was there when reading began, or began anew; NULL before the first round looked."
    )
    round_id: str | None = column("The round that is queued or running.")
    tierer_id: str | None = column("The tierer that runs it.")
    round_started_time: datetime | None = column("When it was assigned.")
    heartbeat_time: datetime | None = column("When its tierer was last heard of.")
    fraction_completed: float | None = column("Part of the round that is done, from 0 to 1.")
    last_checked_time: datetime | None = column(
        "When the lake last was found to have, or got, all that the log held: by a round, or without one by the coordinator."
    )
    last_round_duration_ms: int | None = column("Milliseconds that the latest ended round took.")
    lake_snapshot_id: int | None = column("Lake snapshot of the latest commit.")
    lake_records: int | None = column("Records in the lake table as of that commit.")
    lake_bytes: int | None = column("Bytes of its data files.")
    lake_files: int | None = column("Number of its data files.")
    error_class: str | None = column("Class of last_error.")
    error_phase: str | None = column("Where in the round it happened: PLAN, LEASE, READ, WRITE, FENCE, LAKE_COMMIT, ACK or MAINTENANCE.")
    error_hint: str | None = column("What to do about it.")
    error_retryable: bool | None = column("Whether tiering tries again by itself.")
    error_count: int = column("Rounds that failed or left a bucket stopped, since the table was made or its errors were reset.")
    consecutive_failures: int = column("Failed rounds since the last success, with all fenced ones but the first.", arrow_type=INT)
    next_retry_time: datetime | None = column("When tiering tries again.")
    paused: bool = column("Whether its tiering is paused.")
    paused_by: str | None = column("Who paused it.")
    paused_reason: str | None = column("Why.")
    paused_until: datetime | None = column("When the pause ends by itself; NULL = not by itself.")
    next_action: str | None = column(
        "The one statement that helps, and leaves no acknowledged row out of the lake; NULL where waiting is right, and where the choice "
        "is a person's: see error_hint."
    )
    observed_time: datetime = column("The one moment that all rows of this scan show.")
