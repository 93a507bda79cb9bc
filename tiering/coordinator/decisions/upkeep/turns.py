"""Upkeep where the cluster assigns tables: it runs in our turn, after the tiering round, for a small part of the table's freshness.

The cluster counts the freshness of a table from the end of its turn. So a turn is kept only if upkeep is needed, may begin, and gets a slot
soon.
"""

from __future__ import annotations

from dataclasses import replace

from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.records import AssignmentEnd, TableRecord
from tiering.coordinator.decisions.upkeep import schedule


def keep_turn(ctx: Context, before: TableRecord, change: Change) -> Change:
    """Keeps the turn that a tiering round ended, if upkeep should follow. `before` is the record while the round ran."""
    record = change.record
    ended = record.assignment is not None and record.assignment.end is AssignmentEnd.FINISHED
    if not ended or not before.has_turn:
        return _without_deadline(change)
    kept = replace(
        record, assignment=before.assignment, upkeep=replace(record.upkeep, turn_deadline=ctx.now.after(schedule.turn_ms(record)))
    )
    requested = bool(record.upkeep.requests)
    if not (requested or record.upkeep.is_needed) or schedule.waits_for(ctx.now, kept, needs_turn=True, requested=requested) is not None:
        return _without_deadline(change)
    return replace(change, record=kept)


def end_kept_turn(ctx: Context, change: Change) -> Change | None:
    """Ends a turn that was kept for upkeep once its time is over; None if it is not over."""
    record = change.record
    if not ctx.now.passed(record.upkeep.turn_deadline):
        return None
    if record.assignment is None or not record.has_turn or record.unresolved_commit:
        return _without_deadline(change)
    return _without_deadline(change.update(assignment=replace(record.assignment, end=AssignmentEnd.FINISHED)))


def _without_deadline(change: Change) -> Change:
    upkeep = change.record.upkeep
    return change if upkeep.turn_deadline is None else change.update(upkeep=replace(upkeep, turn_deadline=None))
