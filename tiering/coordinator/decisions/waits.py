"""How long a table waited before a round, by how much the round missed its deadline, and when the next round has to begin.

A round keeps the promise of freshness if it ends before the deadline. So a table becomes due earlier, by the duration of its latest rounds.
All values are in milliseconds.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tiering.coordinator.decisions.moment import Moment, milliseconds
from tiering.coordinator.decisions.records import TableRecord
from tiering.model.rounds import RoundMode, RoundState
from tiering.model.states import TableState

FIRST_ROUND_MS = 60_000
"""Expected duration of a table's first round: Spark may have to start, and the lake table is created."""

REMEMBERED_ROUNDS = 5
"""Number of latest rounds whose maximum is the expected duration of the next one. The maximum covers slow rounds, too."""

REMEMBERED_WAITS = 20
"""Number of latest waits whose maximum is the expected wait for a slot. A table waits for a slot only in some of its rounds."""

MARGIN = 1.25
"""Safety factor on the expected durations, because durations vary."""

REACTION_MS = 500
"""Time from the deadline until a tierer learns it: one tick of the coordinator and one heartbeat."""

ROUND_SHARE, WAIT_SHARE = 0.5, 0.25
"""Largest parts of the freshness by which a table becomes due earlier, for its round and for its wait for a slot. A round that takes more
than half of the freshness cannot keep the promise, however early it begins."""


def backoff_ms(now: Moment, record: TableRecord) -> int:
    """Returns how long the table waited in Failed, up to the end of its back-off. Later time counts as a pause or as a wait for a slot."""
    if record.state is not TableState.FAILED:
        return 0
    return milliseconds(min(now.wall, now.to_wall(record.retry_deadline) or now.wall) - record.status_time)


def pause_ended(now: Moment, record: TableRecord) -> TableRecord:
    """Returns the record without its pause. The pause counts from the moment at which the table would have been tiered without it."""
    pause = record.pause
    if pause is None:
        return record
    if record.state is TableState.TIERING:
        return replace(record, pause=None)  # a pause does not stop a running round
    starts = [pause.time, now.to_wall(record.due_deadline)]
    if record.round is not None:
        starts.append(record.round.finished_time or record.round.pending_time)
    if record.state is TableState.FAILED:
        starts.append(now.to_wall(record.retry_deadline) or now.wall)  # a permanent failure waits for a user in any case
    began = max(start for start in starts if start is not None)
    return replace(record, pause=None, paused_ms=record.paused_ms + milliseconds(now.wall - began))


def waited_for_slot_ms(now: Moment, record: TableRecord) -> int:
    """Returns how long the table has waited in the queue for a free tierer since the last successful round, without pauses."""
    queued = record.round
    if queued is None:
        return record.waited_for_slot_ms
    paused = record.paused_ms - (queued.paused_ms or 0)
    return record.waited_for_slot_ms + max(0, milliseconds(now.wall - queued.pending_time) - paused)


def promise(now: Moment, record: TableRecord, waiting_since: datetime | None) -> tuple[datetime | None, int]:
    """Returns when the promise of the queued round is broken, and how much of the waits until now broke no promise.

    A row has to reach the lake within the table's freshness after its own commit. `waiting_since`: no row that the lake lacks is older;
    None if unknown, and then the deadline of the queued round stays.
    """
    queued = record.round
    if queued is None or queued.deadline is None or waiting_since is None:
        return None if queued is None else queued.deadline, 0
    deadline = max(queued.deadline, waiting_since + timedelta(milliseconds=record.freshness_ms))
    return deadline, milliseconds(min(deadline, max(now.wall, queued.deadline)) - queued.deadline)


def unexplained_ms(now: Moment, record: TableRecord) -> int:
    """Returns how much of the time since the table became due is neither a wait for a slot, nor a back-off, nor a pause.

    The table is about to be queued. Before its first round, this is time in which it was not queued. Later, it is the time of rounds that
    did not bring it up to date.
    """
    if record.due_time is None:
        return 0
    explained = record.waited_for_slot_ms + record.backoff_ms + record.paused_ms + record.queued_late_ms
    return max(0, milliseconds(now.wall - record.due_time) - explained)


def brought_up_to_date(record: TableRecord) -> bool:
    """Returns whether the lake held all of the log when the latest round ended, as far as known."""
    ended = record.round
    if ended is None or (record.granted and not ended.acked):
        return False
    return ended.state in (RoundState.SUCCEEDED, RoundState.EMPTY)


def missed_by_ms(record: TableRecord) -> int | None:
    """Returns how long after its deadline the ended round had brought the lake up to date; 0 for an EMPTY round."""
    ended = record.round
    if ended is None or ended.deadline is None:
        return None
    if ended.state is RoundState.EMPTY:
        return 0
    caught_up = _caught_up(record)
    return None if caught_up is None else milliseconds(caught_up - ended.deadline)


def _caught_up(record: TableRecord) -> datetime | None:
    """Returns when the lake held what the ended round brought."""
    caught_up = None if record.round is None else record.round.finished_time
    if record.granted and record.commit is not None:
        caught_up = record.commit.acked_at or record.commit.lake_committed_at or caught_up
    return caught_up


def begin_deadline(record: TableRecord) -> datetime | None:
    """Returns the steady time at which a scheduled table becomes due, so that its lake is up to date by `due_deadline`."""
    return None if record.due_deadline is None else record.due_deadline - timedelta(milliseconds=lead_ms(record))


def lead_ms(record: TableRecord) -> int:
    """Returns how long before its deadline a table becomes due, for its round and for the wait for a slot.

    An occupied slot is expected to be free after the duration of the table's own round, or after its longest recent wait.
    """
    freshness = record.freshness_ms
    if not record.recent_rounds_ms:
        return int(min(max(FIRST_ROUND_MS, (record.last_round_duration_ms or 0) * MARGIN), freshness * ROUND_SHARE))
    longest = max(record.recent_rounds_ms)
    wait = max((longest, *record.recent_waits_ms))
    return int(min(longest * MARGIN + REACTION_MS, freshness * ROUND_SHARE) + min(wait * MARGIN, freshness * WAIT_SHARE))


def remember_times(record: TableRecord) -> TableRecord:
    """Returns the record with the times of its successful round. Rounds of a backlog do not count, because later rounds are shorter."""
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
