"""sys.lake_upkeep: the upkeep of lake tables, in upkeep rounds and inside tiering rounds, the newest first.

Each row is a stored round that did upkeep, or whose purpose was upkeep: nothing is stored twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sys_tables.declare.columns import row_from
from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from sys_tables.query.history_ranges import history_range
from sys_tables.tables.tiering_rounds import span_ms
from tiering.access.requirements import DESCRIBE_EACH_TABLE
from tiering.coordinator.interface import CoordinatorView, RoundRecord
from tiering.model.declare import INT, column


@dataclass(frozen=True)
class LakeUpkeepRow:
    """The upkeep of one round."""

    round_id: str = column("Id of the round, as in tiering_rounds.")
    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    table_id: int = column("Id of the table, never reused.")
    trigger: str = column("Why the upkeep was done: call, upkeep for the table's health, or round for upkeep inside a tiering round.")
    triggered_by: str | None = column("The user who called; NULL without a CALL.")
    actions: str = column("Actions, with commas: rewrite_files, rewrite_all_files, merge_manifests, expire_snapshots.")
    reason: str | None = column("Why the upkeep was done, in words; NULL inside a tiering round.")
    outcome: str = column(
        "State: RUNNING, SUCCEEDED, EMPTY (nothing to do), DROPPED (another commit had changed all files first), CANCELLED or FAILED."
    )
    files_before: int | None = column(
        "Data and delete files that were replaced; like all counts, NULL until the tierer reports.", arrow_type=INT
    )
    files_after: int | None = column("New files that replaced them.", arrow_type=INT)
    bytes_read: int | None = column("Bytes of the files that were rewritten.")
    bytes_written: int | None = column("Bytes of the new files.")
    rows_dropped: int | None = column("Deleted rows that the new files do not have.")
    dropped_buckets: int | None = column(
        "Rewritten buckets that the commit left out, because another commit had changed their files.", arrow_type=INT
    )
    bytes_left: int | None = column("Bytes of files that are still to be rewritten; NULL if unknown.")
    budget_bytes: int | None = column("Most bytes that the round may rewrite; NULL inside a tiering round.")
    manifests_before: int | None = column("Manifests before the upkeep; NULL if it merged none.", arrow_type=INT)
    manifests_after: int | None = column("Manifests after the upkeep.", arrow_type=INT)
    snapshots_expired: int | None = column("Snapshots that the upkeep removed. A sweep deletes their files later.", arrow_type=INT)
    pending_time: datetime = column("When the round was queued.")
    started_time: datetime | None = column("When a tierer got the round.")
    finished_time: datetime | None = column("When the end of the round was reported or detected.")
    duration_ms: int | None = column(
        "Milliseconds from started_time to finished_time; inside a tiering round the duration of the whole round."
    )
    lake_snapshot_id: int | None = column("The lake snapshot that the round committed; NULL unless the coordinator found it in the lake.")
    tierer_id: str | None = column("The tierer that got the round.")
    ran_on: str | None = column("The place where the files were rewritten: SPARK, or INLINE, the tierer's own process; NULL while it runs.")
    error_class: str | None = column("Class of the error that ended the upkeep.")
    error_message: str | None = column("The error in words. For a cancelled round: the user who cancelled it, and the reason.")


@system_table(
    "lake_upkeep",
    LakeUpkeepRow,
    requires=DESCRIBE_EACH_TABLE,
    comment="The upkeep of the lake tables, the newest first: files, bytes, manifests, snapshots, and its end.",
    newest_first=("pending_time", "round_id"),
    is_history=True,
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[LakeUpkeepRow]:
    for record in view.history.read_rounds(history_range(scan, "pending_time", "tierer_id")):
        if record.upkeep is not None or _did_upkeep(record):
            yield row_of(record)


def row_of(record: RoundRecord) -> LakeUpkeepRow:
    """Returns the upkeep of a stored round as its row."""
    error, place = record.error, None if record.stats is None else record.stats.place
    shown_error = None if record.upkeep is None else error
    return row_from(
        LakeUpkeepRow,
        record,
        trigger=_trigger(record),
        triggered_by=None if record.upkeep is None else record.triggered_by,
        actions=", ".join(_actions(record)),
        reason=record.upkeep_reason,
        outcome=_outcome(record),
        budget_bytes=None if record.upkeep is None or not record.upkeep.rewrite else record.upkeep.budget_bytes,
        duration_ms=span_ms(record.started_time, record.finished_time),
        ran_on=None if place is None else place.ran_on.value,
        error_class=None if shown_error is None else shown_error.error_class,
        error_message=None if shown_error is None else shown_error.message,
        **_counts(record),
    )


def _did_upkeep(record: RoundRecord) -> bool:
    did = None if record.stats is None else record.stats.upkeep
    return did is not None and any((did.files_before, did.snapshots_expired, did.dropped, did.manifests_before))


def _trigger(record: RoundRecord) -> str:
    if record.upkeep is None:
        return "round"
    return "upkeep" if record.triggered_by is None else "call"


def _actions(record: RoundRecord) -> Iterator[str]:
    """Yields the actions that an upkeep round was asked for, or that a tiering round did."""
    order, did = record.upkeep, None if record.stats is None else record.stats.upkeep
    if order is None:
        done = {} if did is None else {"rewrite_files": did.files_before or did.dropped, "merge_manifests": did.manifests_before}
        done |= {} if did is None else {"expire_snapshots": did.snapshots_expired}
        yield from (name for name, count in done.items() if count)
        return
    if order.rewrite:
        yield "rewrite_all_files" if order.full else "rewrite_files"
    if order.manifests:
        yield "merge_manifests"
    if order.expiry is not None:
        yield "expire_snapshots"


def _outcome(record: RoundRecord) -> str:
    if not record.state.is_final:
        return "RUNNING"
    did = None if record.stats is None else record.stats.upkeep
    if did is not None and did.dropped and not did.files_after and record.state.ended_well:
        return "DROPPED"
    if record.upkeep is not None and record.state.value == "EMPTY":
        return "EMPTY"
    if record.state.ended_well:
        return "SUCCEEDED"
    return "CANCELLED" if record.state.value == "CANCELLED" else "FAILED"


_COUNTS = (
    "files_before",
    "files_after",
    "bytes_read",
    "bytes_written",
    "rows_dropped",
    "bytes_left",
    "manifests_before",
    "manifests_after",
    "snapshots_expired",
)
"""Fields of `UpkeepStats` that are columns under their own names."""


def _counts(record: RoundRecord) -> dict[str, Any]:
    did = None if record.stats is None else record.stats.upkeep
    if did is None:
        return dict.fromkeys((*_COUNTS, "dropped_buckets"))
    return {name: getattr(did, name) for name in _COUNTS} | {"dropped_buckets": did.dropped}
