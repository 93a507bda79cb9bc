"""Pure decisions about tables that the cluster assigns: assigned, held without a round, handed back, reported, lost.

A table belongs to this deployment from the answer that assigned it until the coordinator has reported the end of the assignment to the
cluster, or the session of the assignment is over. While the outcome of one of our commits is unknown, the table is reported neither as
finished nor as failed. Otherwise another service would plan from an offset that a late request can still move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from tiering import errors
from tiering.coordinator.decisions import fences, round_lifecycle
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import (
    AssignmentEnd,
    AssignmentRecord,
    ErrorInfo,
    Level,
    OtherServiceRecord,
    TableRecord,
    TiererRecord,
    to_text,
)
from tiering.coordinator.decisions.round_lifecycle import Failure
from tiering.coordinator.options import CoordinatorOptions
from tiering.model.assignments import AssignmentRef, AssignmentReport, LakeTotals, ServiceStatus
from tiering.model.states import TableState

UNCLAIMED_MS = 30_000
"""How long an assigned table waits while no tierer takes tables, before it is handed back. A tierer that restarts needs less time."""

FIRST_REST_MS, LONGEST_REST_MS = 1_000, 32_000
"""How long no table is requested after one was handed back. Flink's tiering asks every 30 s by default, and the cluster assigns a failed
table again at once, to the service that asks next."""

NOT_WRITTEN_HERE = frozenset({"UnsupportedType", "ForbiddenLocation", "InvalidArgument", "SetupError"})
"""Permanent errors that another service may not have, because it supports the column type, the catalog or the location."""


def assign(ctx: Context, record: TableRecord, ref: AssignmentRef, session: str) -> Change:
    """Records that the cluster assigned the table. A round that still runs continues: the table was not assigned elsewhere since, and the
    lake decides.

    A table that this deployment cannot write is handed back.
    """
    assignment = AssignmentRecord(ref.coordinator_epoch, ref.tiering_epoch, session, ctx.now.steady)
    change = Change(record).update(assignment=assignment, elsewhere=None, upkeep=replace(record.upkeep, turn_deadline=None))
    keeps = record.unresolved_commit or why_not_written(record, ctx.options.lake_format) is None
    return change if keeps else hand_back(change.record)


def why_not_written(record: TableRecord, lake_format: str) -> str | None:
    """Returns why this deployment, which writes `lake_format`, can never write the table's lake copy; None if it can."""
    if record.lake_format != lake_format:
        return f"its lake format is {record.lake_format}, and this service writes {lake_format}"
    failed_for_good = record.state is TableState.FAILED and record.retry_deadline is None and record.error is not None
    if failed_for_good and record.error is not None and record.error.error_class in NOT_WRITTEN_HERE:
        return f"this service cannot write it: {record.error.error_class}: {record.error.message}"
    return None


def is_held(record: TableRecord) -> bool:
    """Returns whether the table is kept without a round. If it were reported as failed, the cluster would assign it again at once."""
    return record.has_turn and (record.pause is not None or record.state is TableState.FAILED) and record.running is None


def to_hand_back(records: Iterable[TableRecord], options: CoordinatorOptions, now: Moment, *, connected: bool) -> list[TableRecord]:
    """Returns the assigned tables that another service should get.

    These are the tables that this service cannot write, and the most recent of the held tables beyond the limit. While no tierer that takes
    tables is `connected`, the tables that have waited long enough for one are added.
    """
    assigned = [record for record in records if record.has_turn and record.running is None and not record.unresolved_commit]
    held_records = sorted((record for record in assigned if is_held(record)), key=_assigned_since)
    back = {record.table_id: record for record in held_records[options.held_tables :]}
    for record in assigned:
        unclaimed = not connected and record.state is TableState.PENDING and now.passed(_claim_deadline(record))
        if unclaimed or why_not_written(record, options.lake_format) is not None:
            back[record.table_id] = record
    return list(back.values())


def _assigned_since(record: TableRecord) -> tuple[datetime, int]:
    assert record.assignment is not None
    return record.assignment.assigned_since, record.table_id


def _claim_deadline(record: TableRecord) -> datetime:
    return Moment(_assigned_since(record)[0], _assigned_since(record)[0]).after(UNCLAIMED_MS)


def hand_back(record: TableRecord) -> Change:
    """Reports the table as failed to the cluster, so that another service gets it."""
    assert record.assignment is not None
    return Change(record).update(assignment=replace(record.assignment, end=AssignmentEnd.FAILED))


def stop(ctx: Context, record: TableRecord) -> Change:
    """Hands the table back because this coordinator stops. Its round, which was not granted its commit, ends."""
    assert record.assignment is not None
    ended = lose(ctx, record, "the coordinator stops, and gives the table back to the cluster")
    return ended.update(assignment=replace(record.assignment, end=AssignmentEnd.FAILED))


def takes_tables(tierer: TiererRecord, now: Moment) -> bool:
    """Returns whether the tierer could take a table now. A fenced tierer cannot, even if it still sends heartbeats."""
    return not tierer.stopped and not tierer.fenced and not now.passed(tierer.lost_deadline)


def free_slots(tierers: Iterable[TiererRecord], records: Iterable[TableRecord], now: Moment) -> int:
    """Returns how many more tables the tierers can take. Held tables and rounds of lost tierers use no slot."""
    slots = sum(max(tierer.slots, 1) for tierer in tierers if takes_tables(tierer, now))
    used_slots = sum(1 for record in records if record.running is not None or (record.has_turn and not is_held(record)))
    return slots - used_slots


def report_of(
    records: Iterable[TableRecord],
    *,
    wants_table: bool,
    unknown: Iterable[AssignmentRef] = (),
    is_being_notified: Callable[[int], bool] = lambda table_id: False,
) -> AssignmentReport:
    """Returns the report to the cluster about all its assignments; it is repeated until the cluster answers.

    `unknown` tables are handed back.

    A table stays assigned while the cluster is being told of its lake snapshot.
    """
    by_end: dict[AssignmentEnd | None, list[AssignmentRef]] = {None: [], AssignmentEnd.FINISHED: [], AssignmentEnd.FAILED: [*unknown]}
    totals: dict[AssignmentRef, LakeTotals] = {}
    for record in records:
        if record.assignment is not None and record.assignment_ref is not None:
            stays = record.unresolved_commit or is_being_notified(record.table_id)
            by_end[None if stays else record.assignment.end].append(record.assignment_ref)
            totals[record.assignment_ref] = LakeTotals(record.lake.records, record.lake.size_bytes)
    finished = by_end[AssignmentEnd.FINISHED]
    return AssignmentReport(by_end[None], finished, by_end[AssignmentEnd.FAILED], wants_table, {ref: totals[ref] for ref in finished})


def renewed(record: TableRecord, session: str) -> Change:
    """Records that the cluster renewed the assignment. After an earlier session, it is ours again for a round that resolves its commit."""
    assignment = record.assignment
    if assignment is None or assignment.certain:
        return Change(record, durable=False)
    return Change(record).update(assignment=replace(assignment, session=session, certain=True))


def is_stale(record: TableRecord) -> bool:
    """Returns whether the assignment outlived its session for a commit with an unknown outcome that is known by now."""
    return record.assignment is not None and not record.assignment.certain and not record.unresolved_commit


def released(record: TableRecord) -> Change:
    """Removes an assignment that has ended in the cluster, too, or that the cluster does not know."""
    return Change(record).update(assignment=None)


def lose(ctx: Context, record: TableRecord, why: str) -> Change:
    """Records that the table is not ours any more. A round without a grant is fenced. A granted round continues, and the lake decides."""
    change = released(record).note(ctx, "ASSIGNMENT_LOST", why, Level.WARN)
    if record.running is None or record.granted:
        return change
    lost = errors.Fenced(why, hint="Nothing to do: tiering continues when the cluster assigns the table again.")
    error = ErrorInfo(lost.error_class, lost.message, None, lost.hint or "", retryable=True, time=ctx.now.wall)
    failure = Failure(error, fenced=True, fence_hint=fences.TURN_LOST)
    return round_lifecycle.fail(ctx, change.record, failure).after(change)


def end_session(ctx: Context, record: TableRecord) -> Change:
    """Ends the session in which the table was assigned: the cluster's epochs may restart, and another service may get the same numbers.

    The assignment is kept for a commit with an unknown outcome, and renewed. That does not harm another service with the same epochs.
    """
    assignment = record.assignment
    if assignment is None:
        return Change(record, durable=False)
    if not ctx.options.assigned_by_cluster or (assignment.end is not None and not record.unresolved_commit):
        return released(record)
    if record.unresolved_commit and not assignment.certain:
        return Change(record, durable=False)
    lost = lose(ctx, record, "the connection to the cluster's coordinator, over which the table was assigned, has ended")
    return lost.update(assignment=replace(assignment, certain=False)) if record.unresolved_commit else lost


def notice(ctx: Context, record: TableRecord, status: ServiceStatus) -> Change | None:
    """Records another service's progress on a table that is not assigned to us; None if nothing changed.

    It is only displayed. The next base check reads the lake itself.
    """
    is_ours = record.has_turn or record.running is not None
    snapshot = None if is_ours else status.lake_snapshot
    before = record.elsewhere
    if snapshot is None or snapshot.lake_snapshot_id == record.lake.snapshot_id:
        return None if before is None else replace(Change(record).update(elsewhere=None), durable=False)
    offsets = to_text(snapshot.offsets)
    if before is not None and (before.lake_snapshot_id, before.offsets) == (snapshot.lake_snapshot_id, offsets):
        return None
    elsewhere = OtherServiceRecord(status.source, snapshot.lake_snapshot_id, offsets, ctx.now.wall)
    return replace(Change(record).update(elsewhere=elsewhere), durable=False)


@dataclass(frozen=True)
class RequestThrottle:
    """When tables may be requested: the more tables in a row were handed back, the less often, so that other services get them."""

    handed_back: int = 0
    since: datetime | None = None

    def may_ask(self, now: Moment) -> bool:
        """Returns whether the pause after the last hand-back is over."""
        if self.since is None:
            return True
        rest_ms = min(FIRST_REST_MS * 2 ** min(self.handed_back - 1, 10), LONGEST_REST_MS)
        return now.passed(Moment(self.since, self.since).after(rest_ms))

    def after_hand_back(self, now: Moment) -> RequestThrottle:
        """Returns the pace after a table was handed back."""
        return RequestThrottle(self.handed_back + 1, now.steady)

    def after_begin(self) -> RequestThrottle:
        """Returns the pace after a table was assigned that can be tiered: more such tables may wait behind it."""
        return RequestThrottle()
