"""Pure decisions about tables that the cluster assigns: begun, held without a round, handed back, told, lost.

A table belongs to this deployment from the answer that assigned it until the cluster is told how that ended, or its session is over. While
the outcome of one of our commits is unknown it is neither finished nor failed towards the cluster: another service would plan from an
offset that a late request may still move.
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
    ElsewhereRecord,
    ErrorInfo,
    Level,
    TableRecord,
    TiererRecord,
    to_text,
)
from tiering.coordinator.decisions.round_lifecycle import Failure
from tiering.coordinator.options import CoordinatorOptions
from tiering.model.assignments import AssignmentRef, AssignmentReport, ServiceStatus
from tiering.model.states import TableState

UNCLAIMED_MS = 30_000
"""How long an assigned table waits while no tierer takes tables, before another service gets it: one that starts again needs less."""

FIRST_REST_MS, LONGEST_REST_MS = 1_000, 32_000
"""How long nothing is asked for after a table was handed back. Flink's tiering asks every 30 s by default, and a table that is failed is
assigned again at once: to whoever asks next."""

NOT_WRITTEN_HERE = frozenset({"UnsupportedType", "ForbiddenLocation", "InvalidArgument", "SetupError"})
"""Classes of permanent errors that another service may not have: a column type, a catalog or a place that this one has no way to."""


def assign(ctx: Context, record: TableRecord, ref: AssignmentRef, session: str) -> Change:
    """The cluster assigned the table. A round that still runs goes on: nobody else has been assigned it since, and the lake tells.

    One that this deployment cannot write is to go back.
    """
    assignment = AssignmentRecord(ref.coordinator_epoch, ref.tiering_epoch, session, ctx.now.steady)
    change = Change(record).update(assignment=assignment, elsewhere=None, upkeep=replace(record.upkeep, turn_deadline=None))
    keeps = record.unresolved_commit or why_not_written(record, ctx.options.lake_format) is None
    return change if keeps else hand_back(change.record)


def why_not_written(record: TableRecord, lake_format: str) -> str | None:
    """Why this deployment, which writes `lake_format`, cannot write the table's lake copy however often it tries; None if it can."""
    if record.lake_format != lake_format:
        return f"its lake format is {record.lake_format}, and this service writes {lake_format}"
    failed_for_good = record.state is TableState.FAILED and record.retry_deadline is None and record.error is not None
    if failed_for_good and record.error is not None and record.error.error_class in NOT_WRITTEN_HERE:
        return f"this service cannot write it: {record.error.error_class}: {record.error.message}"
    return None


def is_held(record: TableRecord) -> bool:
    """Whether the table is kept without a round: reporting it failed would bring it back at once."""
    return record.has_turn and (record.pause is not None or record.state is TableState.FAILED) and record.running is None


def to_hand_back(records: Iterable[TableRecord], options: CoordinatorOptions, now: Moment, *, connected: bool) -> list[TableRecord]:
    """Assigned tables that somebody else is to get.

    Those that cannot be written here; those held beyond the limit, the latest first; and, while no tierer is `connected` that takes
    tables, those that have waited for one.
    """
    ours = [record for record in records if record.has_turn and record.running is None and not record.unresolved_commit]
    held = sorted((record for record in ours if is_held(record)), key=_assigned_since)
    back = {record.table_id: record for record in held[options.held_tables :]}
    for record in ours:
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
    """The cluster is to be told that we failed, so that another service gets the table."""
    assert record.assignment is not None
    return Change(record).update(assignment=replace(record.assignment, end=AssignmentEnd.FAILED))


def stop(ctx: Context, record: TableRecord) -> Change:
    """This coordinator stops: the table goes back, and its round, which was not granted its commit, ends."""
    assert record.assignment is not None
    ended = lose(ctx, record, "the coordinator stops, and gives the table back to the cluster")
    return ended.update(assignment=replace(record.assignment, end=AssignmentEnd.FAILED))


def takes_tables(tierer: TiererRecord, now: Moment) -> bool:
    """Whether it could take a table now. A fenced one that is still heard of could not: what waits is not kept for it."""
    return not tierer.stopped and not tierer.fenced and not now.passed(tierer.lost_deadline)


def free_slots(tierers: Iterable[TiererRecord], records: Iterable[TableRecord], now: Moment) -> int:
    """How many more tables the tierers can take: held ones take no room, nor do rounds whose tierer is gone."""
    slots = sum(max(tierer.slots, 1) for tierer in tierers if takes_tables(tierer, now))
    taken = sum(1 for record in records if record.running is not None or (record.has_turn and not is_held(record)))
    return slots - taken


def report_of(
    records: Iterable[TableRecord],
    *,
    wants_table: bool,
    unknown: Iterable[AssignmentRef] = (),
    is_being_told: Callable[[int], bool] = lambda table_id: False,
) -> AssignmentReport:
    """What the cluster is told of all its assignments, until it has answered. `unknown` tables are handed back.

    A table of whose lake snapshot the cluster is being told stays until that is over.
    """
    by_end: dict[AssignmentEnd | None, list[AssignmentRef]] = {None: [], AssignmentEnd.FINISHED: [], AssignmentEnd.FAILED: [*unknown]}
    for record in records:
        if record.assignment is not None and record.assignment_ref is not None:
            stays = record.unresolved_commit or is_being_told(record.table_id)
            by_end[None if stays else record.assignment.end].append(record.assignment_ref)
    return AssignmentReport(by_end[None], by_end[AssignmentEnd.FINISHED], by_end[AssignmentEnd.FAILED], wants_table)


def renewed(record: TableRecord, session: str) -> Change:
    """The cluster renewed the assignment. One of an earlier session is ours again: its commit must be resolved, by a round of ours."""
    held = record.assignment
    if held is None or held.certain:
        return Change(record, durable=False)
    return Change(record).update(assignment=replace(held, session=session, certain=True))


def is_stale(record: TableRecord) -> bool:
    """Whether it was kept, after its session, for a commit whose outcome is known by now."""
    return record.assignment is not None and not record.assignment.certain and not record.unresolved_commit


def released(record: TableRecord) -> Change:
    """The cluster knows how the assignment ended, or has no such assignment: it is over on both sides."""
    return Change(record).update(assignment=None)


def lose(ctx: Context, record: TableRecord, why: str) -> Change:
    """The table is not ours any more. A round that was not granted its commit is fenced; one that was goes on, and the lake decides."""
    change = released(record).note(ctx, "ASSIGNMENT_LOST", why, Level.WARN)
    if record.running is None or record.granted:
        return change
    lost = errors.Fenced(why, hint="Nothing to do: the table goes on when the cluster assigns it again.")
    error = ErrorInfo(lost.error_class, lost.message, None, lost.hint or "", retryable=True, time=ctx.now.wall)
    failure = Failure(error, fenced=True, fence_hint=fences.TURN_LOST)
    return round_lifecycle.fail(ctx, change.record, failure).after(change)


def end_session(ctx: Context, record: TableRecord) -> Change:
    """The session in which the table was assigned is over: the cluster's epochs may begin anew, and ours name somebody else's turn.

    Kept for a commit with an unknown outcome, and renewed then: that much does no harm to whoever has the same epochs.
    """
    held = record.assignment
    if held is None:
        return Change(record, durable=False)
    if not ctx.options.assigned_by_cluster or (held.end is not None and not record.unresolved_commit):
        return released(record)
    if record.unresolved_commit and not held.certain:
        return Change(record, durable=False)
    lost = lose(ctx, record, "the connection to the cluster's coordinator, over which the table was assigned, has ended")
    return lost.update(assignment=replace(held, certain=False)) if record.unresolved_commit else lost


def notice(ctx: Context, record: TableRecord, status: ServiceStatus) -> Change | None:
    """What is known of the tiering of a table whose turn is not ours; None = nothing new. Only shown: a base check decides anew."""
    own = record.has_turn or record.running is not None
    snapshot = None if own else status.lake_snapshot
    before = record.elsewhere
    if snapshot is None or snapshot.lake_snapshot_id == record.lake.snapshot_id:
        return None if before is None else replace(Change(record).update(elsewhere=None), durable=False)
    offsets = to_text(snapshot.offsets)
    if before is not None and (before.lake_snapshot_id, before.offsets) == (snapshot.lake_snapshot_id, offsets):
        return None
    elsewhere = ElsewhereRecord(status.source, snapshot.lake_snapshot_id, offsets, ctx.now.wall)
    return replace(Change(record).update(elsewhere=elsewhere), durable=False)


@dataclass(frozen=True)
class AskPace:
    """When tables may be asked for: the more tables in a row went back, the less often, so that others come first."""

    handed_back: int = 0
    since: datetime | None = None

    def may_ask(self, now: Moment) -> bool:
        """Whether the rest after the last hand-back is over."""
        if self.since is None:
            return True
        rest_ms = min(FIRST_REST_MS * 2 ** min(self.handed_back - 1, 10), LONGEST_REST_MS)
        return now.passed(Moment(self.since, self.since).after(rest_ms))

    def after_hand_back(self, now: Moment) -> AskPace:
        """A table goes back."""
        return AskPace(self.handed_back + 1, now.steady)

    def after_begin(self) -> AskPace:
        """A table came that can be tiered: others are waiting behind it."""
        return AskPace()
