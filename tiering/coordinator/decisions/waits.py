"""What a table waited for before a round of it began, and by how much a round missed its deadline. Milliseconds, of the past alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from tiering.coordinator.decisions.moment import Moment, milliseconds
from tiering.coordinator.decisions.records import TableRecord
from tiering.model.rounds import RoundState
from tiering.model.states import TableState


def backoff_ms(now: Moment, record: TableRecord) -> int:
    """How long the table has been Failed, up to the end of its back-off: what comes after that is a pause, or a slot that is not free."""
    if record.state is not TableState.FAILED:
        return 0
    return milliseconds(min(now.wall, now.to_wall(record.retry_deadline) or now.wall) - record.status_time)


def pause_ended(now: Moment, record: TableRecord) -> TableRecord:
    """The record without its pause. The pause counts from when the table would have been tiered without it."""
    pause = record.pause
    if pause is None:
        return record
    if record.state is TableState.TIERING:
        return replace(record, pause=None)  # its round went on
    starts = [pause.time, now.to_wall(record.due_deadline)]
    if record.round is not None:
        starts.append(record.round.finished_time or record.round.pending_time)
    if record.state is TableState.FAILED:
        starts.append(now.to_wall(record.retry_deadline) or now.wall)  # one that failed for good waits for somebody in any case
    began = max(start for start in starts if start is not None)
    return replace(record, pause=None, paused_ms=record.paused_ms + milliseconds(now.wall - began))


def waited_for_slot_ms(now: Moment, record: TableRecord) -> int:
    """How long the table has waited in the queue for a tierer that is free, without pauses, since a round last went well."""
    queued = record.round
    if queued is None:
        return record.waited_for_slot_ms
    paused = record.paused_ms - (queued.paused_ms or 0)
    return record.waited_for_slot_ms + max(0, milliseconds(now.wall - queued.pending_time) - paused)


def unexplained_ms(now: Moment, record: TableRecord) -> int:
    """How much of the time since the table became due is neither a wait for a slot, nor a back-off, nor a pause.

    The table is about to be queued. Before its first round that is time in which nobody queued it; later, that of rounds that did not
    bring it up to date.
    """
    if record.due_time is None:
        return 0
    explained = record.waited_for_slot_ms + record.backoff_ms + record.paused_ms + record.queued_late_ms
    return max(0, milliseconds(now.wall - record.due_time) - explained)


def brought_up_to_date(record: TableRecord) -> bool:
    """Whether the lake had all of the log once the latest round had ended, as far as is known."""
    ended = record.round
    if ended is None or (record.granted and not ended.acked):
        return False
    return ended.state in (RoundState.SUCCEEDED, RoundState.EMPTY)


def missed_by_ms(record: TableRecord) -> int | None:
    """How long after its deadline the ended round had brought the lake up to date; 0 for one with nothing to do."""
    ended = record.round
    if ended is None or ended.deadline is None:
        return None
    if ended.state is RoundState.EMPTY:
        return 0
    caught_up: datetime | None = ended.finished_time
    if record.granted and record.commit is not None:
        caught_up = record.commit.acked_at or record.commit.lake_committed_at or caught_up
    return None if caught_up is None else milliseconds(caught_up - ended.deadline)
