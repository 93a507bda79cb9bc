"""What a table waited for before a round of it began, by how much a round missed its deadline, and when the next one has to begin.

A promise of freshness is kept by a round that ends before the deadline: so a table becomes due earlier, by what its latest rounds took.
All in milliseconds.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tiering.coordinator.decisions.moment import Moment, milliseconds
from tiering.coordinator.decisions.records import TableRecord
from tiering.model.rounds import RoundMode, RoundState
from tiering.model.states import TableState

FIRST_ROUND_MS = 60_000
"""Of a table without a round that tells what the next one takes: Spark may start, and the lake table is made."""

REMEMBERED_ROUNDS = 5
"""The longest of these is what the next round is expected to take: a promise is about the slow rounds, too."""

REMEMBERED_WAITS = 20
"""Rounds of others meet one's own only at times."""

MARGIN = 1.25
"""Of that: rounds differ."""

REACTION_MS = 500
"""From the deadline to a tierer that knows of it: a tick, and a heartbeat's answer."""

ROUND_SHARE, WAIT_SHARE = 0.5, 0.25
"""Of its freshness: a table becomes due at most so much earlier for its round, and for its wait for a slot. A round that takes more than
half of the freshness cannot keep it, however early it begins."""


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


def promise(now: Moment, record: TableRecord, waiting_since: datetime | None) -> tuple[datetime | None, int]:
    """When the promise of the queued round is broken, and how much of its waits up to now no row had to wait.

    A row has the table's freshness from its own commit on. `waiting_since`: no row that the lake lacks is older; None = not known, and
    the deadline stands for which the table was queued.
    """
    queued = record.round
    if queued is None or queued.deadline is None or waiting_since is None:
        return None if queued is None else queued.deadline, 0
    deadline = max(queued.deadline, waiting_since + timedelta(milliseconds=record.freshness_ms))
    return deadline, milliseconds(min(deadline, max(now.wall, queued.deadline)) - queued.deadline)


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
    caught_up = _caught_up(record)
    return None if caught_up is None else milliseconds(caught_up - ended.deadline)


def _caught_up(record: TableRecord) -> datetime | None:
    """When the lake had what the ended round brought."""
    caught_up = None if record.round is None else record.round.finished_time
    if record.granted and record.commit is not None:
        caught_up = record.commit.acked_at or record.commit.lake_committed_at or caught_up
    return caught_up


def begin_deadline(record: TableRecord) -> datetime | None:
    """When a table at rest becomes due, so that its lake has caught up by `due_deadline` (steady time, as that is)."""
    return None if record.due_deadline is None else record.due_deadline - timedelta(milliseconds=lead_ms(record))


def lead_ms(record: TableRecord) -> int:
    """How long before its deadline a table becomes due: for its round, and for the wait for a slot.

    A slot that is taken is expected to be free after as long as the table's own round takes, or as it had to wait of late.
    """
    freshness = record.freshness_ms
    if not record.recent_rounds_ms:
        return int(min(max(FIRST_ROUND_MS, (record.last_round_duration_ms or 0) * MARGIN), freshness * ROUND_SHARE))
    longest = max(record.recent_rounds_ms)
    wait = max((longest, *record.recent_waits_ms))
    return int(min(longest * MARGIN + REACTION_MS, freshness * ROUND_SHARE) + min(wait * MARGIN, freshness * WAIT_SHARE))


def remember_times(record: TableRecord) -> TableRecord:
    """The record after its round went well, with what that took. Rounds of a backlog say nothing of those that follow it."""
    ended = record.round
    if ended is None or ended.started_time is None or ended.mode is RoundMode.BACKLOG:
        return record
    if ended.waited_for_slot_ms is not None:
        record = replace(record, recent_waits_ms=(*record.recent_waits_ms, ended.waited_for_slot_ms)[-REMEMBERED_WAITS:])
    caught_up = _caught_up(record)
    if ended.state is not RoundState.SUCCEEDED or caught_up is None:
        return record
    took = milliseconds(caught_up - ended.started_time)
    return replace(record, recent_rounds_ms=(*record.recent_rounds_ms, took)[-REMEMBERED_ROUNDS:])
