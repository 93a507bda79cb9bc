"""`TableStatus`, the state of the tiering of one lake table. Its fields are the only declaration of `sys.lake_tiering_status`'s columns.

`promise_of` is the only judgement of a promise of freshness. SQL, the console, reports and metrics show its answer.

Each column also has a line in `tiering/coordinator/status/cells.py` that computes its value. `tests/support/reference` adds a new
column to `proto/tiering/rpc/v1/status.proto`. A reader needs the privilege that `sys_tables/tables/lake_tiering_status.py` names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from tiering.html.rows import HtmlFields
from tiering.model.declare import INT, column
from tiering.model.reading.matching import AnyArray
from tiering.model.states import LASTING, TableState


class Promise(StrEnum):
    """Whether the lake copy of a table is as fresh as the table promises."""

    KEPT = "kept"
    AT_RISK = "at risk"
    BROKEN = "broken"


def promise_of(lag_ms: int | None, freshness_ms: int, status: str, *, paused: bool) -> Promise | None:
    """Returns the state of a table's promise; None while its lag is unknown."""
    if lag_ms is None:
        return None
    if lag_ms > freshness_ms:
        return Promise.BROKEN
    return Promise.AT_RISK if paused or status == TableState.FAILED else Promise.KEPT


def promises_of(lag_ms: AnyArray, freshness_ms: AnyArray, status: AnyArray, paused: AnyArray) -> AnyArray:
    """Returns `promise_of` of many tables at once. The arrays have one value for each table."""
    at_risk, broken, kept = (pa.scalar(str(promise)) for promise in (Promise.AT_RISK, Promise.BROKEN, Promise.KEPT))
    is_hindered = pc.or_(paused, pc.equal(status, pa.scalar(str(TableState.FAILED))))
    return pc.if_else(pc.greater(lag_ms, freshness_ms), broken, pc.if_else(is_hindered, at_risk, kept))


_STATES = f"{', '.join(LASTING[:-1])} or {LASTING[-1]}"


@dataclass(frozen=True)
class TableStatus(HtmlFields):
    """The state of one lake table at `observed_time`. None = unknown, or no such value, as the column's comment says."""

    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    status: str = column(f"State of its tiering: {_STATES}. A table that waits for its next due time is Scheduled, also after a commit.")
    tiering_epoch: int = column("Number of the table's latest entry to Pending. It only grows.")
    last_tiered_time: datetime | None = column("Time when rows last reached the lake in a round; NULL before the first.")
    last_error: str | None = column("Message of the latest round's error; NULL after a success, unless a bucket is stopped at a record.")
    last_error_time: datetime | None = column("Time when that error was recorded.")
    table_id: int = column("Id of the table, never reused.")
    table_type: str = column("LOG or PRIMARY_KEY.")
    lake_format: str = column("Format of its lake table, such as iceberg.")
    status_since: datetime = column("Time when the table entered this state.")
    status_reason: str | None = column("Reason why the table is in this state.")
    status_source: str = column(
        "Source of this row. coordinator: the coordinator's own record of the table. derived: lake snapshots that another tiering service "
        "registered with the cluster."
    )
    freshness_ms: int = column("The table's promise: its lake copy is at most this many milliseconds old.")
    lag_ms: int | None = column("Age of the oldest row that is not in the lake yet, in milliseconds; 0 if there is none.")
    promise: str | None = column(
        "State of the promise. broken: lag_ms is above freshness_ms. at risk: it is not, but the table is Failed or paused. kept: neither. "
        "NULL while lag_ms is unknown."
    )
    freshness_deadline: datetime | None = column(
        "Time by which the next round is to end, so that no row waits for longer than freshness_ms. Column promise says whether one does."
    )
    pending_records: int | None = column("Records of the log that are not in the lake yet.")
    pending_bytes: int | None = column("Estimated size of these records in bytes.")
    oldest_pending_time: datetime | None = column("Time when the oldest of these records was written.")
    offsets_observed_time: datetime | None = column("Time when the coordinator last read the log's offsets.")
    is_backlog: bool | None = column(
        "Whether tiering still works through a backlog: the records that the log held when reading began; NULL before the first check."
    )
    round_id: str | None = column("The round that is queued or running.")
    tierer_id: str | None = column("The tierer that runs it.")
    round_started_time: datetime | None = column("Time when the round was assigned.")
    heartbeat_time: datetime | None = column("Time when the coordinator last received a message from the tierer.")
    fraction_completed: float | None = column("Part of the round that is done, from 0 to 1.")
    last_checked_time: datetime | None = column(
        "Time when a round or the coordinator last found all records of the log in the lake, or a round wrote the missing ones."
    )
    last_round_duration_ms: int | None = column("Duration of the last finished round in milliseconds.")
    lake_snapshot_id: int | None = column("Lake snapshot of the latest commit.")
    lake_records: int | None = column("Number of records in the lake table after that commit.")
    lake_bytes: int | None = column("Bytes of its data files.")
    lake_files: int | None = column("Number of its data files.")
    error_class: str | None = column("Class of last_error.")
    error_phase: str | None = column("Phase of the round with the error: PLAN, LEASE, READ, WRITE, FENCE, LAKE_COMMIT, ACK or MAINTENANCE.")
    error_hint: str | None = column("The action that helps against the error.")
    error_retryable: bool | None = column("Whether Lakeward retries automatically.")
    error_count: int = column("Rounds that failed or left a bucket stopped, since the table was created or its errors were reset.")
    consecutive_failures: int = column("Failed rounds since the last success. The first fenced round does not count.", arrow_type=INT)
    next_retry_time: datetime | None = column("Time when Lakeward retries the table.")
    paused: bool = column("Whether tiering of the table is paused.")
    paused_by: str | None = column("The user who paused it.")
    paused_reason: str | None = column("The user's reason for the pause.")
    paused_until: datetime | None = column("Time when the pause ends automatically; NULL = it has no end.")
    next_action: str | None = column(
        "The one statement that helps and leaves no acknowledged row out of the lake; NULL if waiting is right, or if a person has to "
        "decide: see error_hint."
    )
    observed_time: datetime = column("The moment that all rows of this query show.")
