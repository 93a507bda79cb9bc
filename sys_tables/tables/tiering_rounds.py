"""sys.tiering_rounds: every attempt to tier a table, with its reason, its outcome and its durations, the newest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sys_tables.declare.columns import row_from
from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from sys_tables.query.history_ranges import history_range
from tiering.access.requirements import DESCRIBE_EACH_TABLE
from tiering.coordinator.interface import CoordinatorView, RoundRecord
from tiering.model.declare import INT, column
from tiering.model.reading.conditions import Filter, Operator
from tiering.model.rounds import PART_COLUMNS


@dataclass(frozen=True)
class TieringRoundRow:
    """One round."""

    round_id: str = column("Id of the round.")
    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    table_id: int = column("Id of the table, never reused.")
    tiering_epoch: int = column("Number of the table's entry to Pending that created the round.")
    coordinator_epoch: int = column("Epoch of the coordinator that queued the round; once the round runs, of the one that assigned it.")
    trigger: str = column("Why the round was created: schedule, call, retry, force (after a round that stopped early), or upkeep.")
    triggered_by: str | None = column("The user who requested the round; NULL without a request.")
    tierer_id: str | None = column("The tierer that runs or ran the round; NULL while it is queued.")
    state: str = column("State of the round: QUEUED, RUNNING, SUCCEEDED, EMPTY, FORCE_FINISHED, FAILED, CANCELLED or FENCED.")
    pending_time: datetime = column("When the round was queued.")
    started_time: datetime | None = column("When a tierer got the round.")
    finished_time: datetime | None = column("When the end of the round was reported or detected.")
    duration_ms: int | None = column("Milliseconds from started_time to finished_time.")
    completion_target: datetime | None = column(
        "When the round stops early unless it has finished: its maximum duration after started_time."
    )
    splits_total: int | None = column("Splits in the plan of the round; NULL before the plan.", arrow_type=INT)
    splits_done: int | None = column("Splits that the round has read and written.", arrow_type=INT)
    records_read: int | None = column("Log records read; like all counts from here to deletes_written, NULL until its tierer reports.")
    bytes_read: int | None = column("Stored bytes of log and KV snapshots that were read; NULL if its tierer cannot count them.")
    records_written: int | None = column("Rows written to the lake.")
    bytes_written: int | None = column("Bytes of the files that the round wrote.")
    files_written: int | None = column("Files that the round wrote.")
    deletes_written: int | None = column("Rows of the lake that the round marked as deleted.")
    lake_snapshot_id: int | None = column("The lake snapshot that the round committed; NULL unless the coordinator found it in the lake.")
    idempotency_key: str | None = column("The idempotency key of the CALL that requested the round; NULL without one.")
    error_class: str | None = column("Class of the error that ended the round, or of a bucket that stopped while the round succeeded.")
    error_message: str | None = column("Message of the error.")
    attempt: int = column(
        "Number of the attempt since the last round that succeeded: 1, plus the failed and fenced rounds since then.", arrow_type=INT
    )
    deadline: datetime | None = column(
        "When the promise was broken: the table's freshness_deadline when the round was queued, or later, when the oldest row that "
        "the lake lacked had waited for the freshness. The waits from queued_late_ms to paused_ms contain no time without a waiting row."
    )
    missed_by_ms: int | None = column("Milliseconds from deadline until the lake had caught up, 0 if in time; NULL if it did not catch up.")
    mode: str | None = column(
        "UPKEEP for an upkeep round, BACKLOG while rows wait that were in the log when reading began, else LIVE; NULL before its plan."
    )
    queued_late_ms: int | None = column(
        "Milliseconds in which the table was due but not queued: no coordinator ran, or the cluster had not assigned it. "
        "All waits from here to paused_ms count since a round last brought the table up to date."
    )
    waited_for_slot_ms: int | None = column("Milliseconds in the queue, without pauses, until a tierer was free; NULL before.")
    no_tierer_ms: int | None = column("The part of waited_for_slot_ms in which no tierer that gets tables was connected.")
    earlier_rounds_ms: int | None = column("Milliseconds of rounds that failed, were fenced or cancelled, or stopped early.")
    backoff_ms: int | None = column("Milliseconds that the table waited after failures.")
    paused_ms: int | None = column("Milliseconds by which pauses held the table up.")
    plan_ms: int | None = column(
        "Milliseconds to read the state of table, lake and log. This and all later durations are by its tierer's clock."
    )
    lease_ms: int | None = column("Milliseconds until the KV snapshots of the round were leased; NULL if it leased none.")
    read_ms: int | None = column("Milliseconds that the tasks of the round spent on reading splits.")
    write_ms: int | None = column("Milliseconds that the tasks of the round spent on writing.")
    commit_ms: int | None = column("Milliseconds from the request for the grant to the proof that the commit is in the lake.")
    ack_ms: int | None = column("Milliseconds until the coordinator had recorded the commit and notified the cluster.")
    ran_on: str | None = column(
        "The place where the splits of the round ran: SPARK, or INLINE, the tierer's own process. NULL while it runs, "
        "for a round without splits, and for a round of a version without this column."
    )
    spark_application_id: str | None = column("Id of the tierer's application in Spark; NULL for INLINE.")
    spark_job_id: int | None = column("Id of the round's job in Spark, the last one if its splits ran again; NULL for INLINE.")


@system_table(
    "tiering_rounds",
    TieringRoundRow,
    requires=DESCRIBE_EACH_TABLE,
    comment="Attempts to tier a table, the newest first, with their counts and durations.",
    newest_first=("pending_time", "round_id"),
    is_history=True,
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[TieringRoundRow]:
    within = history_range(scan, "pending_time", "state", "trigger", "tierer_id", "mode")
    for record in view.history.read_rounds(replace(within, is_missed=Filter("missed_by_ms", Operator.GREATER, (0,)) in scan.filters)):
        yield row_of(record)


def row_of(record: RoundRecord) -> TieringRoundRow:
    """Returns a stored round as its row."""
    error, place = record.error, None if record.stats is None else record.stats.place
    return row_from(
        TieringRoundRow,
        record,
        trigger=record.trigger.value,
        state=record.state.value,
        duration_ms=span_ms(record.started_time, record.finished_time),
        error_class=None if error is None else error.error_class,
        error_message=None if error is None else error.message,
        mode=None if record.mode is None else record.mode.value,
        ran_on=None if place is None else place.ran_on.value,
        spark_application_id=None if place is None else place.spark_application_id,
        spark_job_id=None if place is None else place.spark_job_id,
        **_waits(record),
        **_reported(record),
    )


_WAITS = ("queued_late_ms", "waited_for_slot_ms", "earlier_rounds_ms", "backoff_ms", "paused_ms")
"""Columns in the order in which the waits usually occur: time without a waiting row is subtracted from the first."""


def _waits(record: RoundRecord) -> dict[str, int | None]:
    """Returns the waits of the table, without time in which no row waited too long."""
    left, values = record.unpromised_ms, {name: getattr(record, name) for name in _WAITS}
    for name, value in values.items():
        part_ms = min(left, value or 0)
        left -= part_ms
        values[name] = None if value is None else value - part_ms
    slot_ms, no_tierer_ms = values["waited_for_slot_ms"], record.no_tierer_ms
    return values | {"no_tierer_ms": no_tierer_ms if None in (slot_ms, no_tierer_ms) else min(slot_ms, no_tierer_ms)}


def _reported(record: RoundRecord) -> dict[str, Any]:
    """Returns the results that the round's tierer reported."""
    stats = record.stats
    counts = ("records_read", "bytes_read", "records_written", "bytes_written", "files_written", "deletes_written")
    if stats is None:
        return dict.fromkeys((*counts, *PART_COLUMNS))
    values = {name: getattr(stats, name) for name in counts} | {name: getattr(stats.times, name) for name in PART_COLUMNS}
    return values | {"bytes_read": stats.bytes_read or (None if stats.records_read else 0)}


def span_ms(start: datetime | None, end: datetime | None) -> int | None:
    """Returns the milliseconds from `start` to `end`, at least 0; None without one of them."""
    return None if start is None or end is None else max(0, (end - start) // timedelta(milliseconds=1))
