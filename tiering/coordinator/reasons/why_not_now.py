"""All reasons why no round of a table begins now, one line each, from the records and the running processes. Pure.

Reasons that only lake and cluster know are not here: `calls.explain_tiering` reads both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tiering.coordinator.decisions.assignments import why_not_written
from tiering.coordinator.decisions.error_kinds import is_bucket_stopped
from tiering.coordinator.decisions.moment import Moment, milliseconds
from tiering.coordinator.decisions.records import ErrorInfo, TableRecord, TiererRecord
from tiering.coordinator.decisions.waits import begin_deadline
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.reasons.status_reason import paused_text, running_text, span_text, wall_text
from tiering.counts import counted
from tiering.model.states import TableState
from tiering.procedures.explain_tiering import Decision, Explanation

HOLDS_UP = frozenset({Decision.WAIT, Decision.REFUSE, Decision.RUNNING})
"""Decisions that prevent a round from beginning now."""


@dataclass(frozen=True)
class TiererCapacity:
    """The connected tierers that could take tables, their slots, how many tierers are fenced, and the running rounds."""

    tierers: int
    slots: int
    fenced: int
    running: int

    @property
    def free(self) -> int:
        """Number of slots without a round."""
        return max(0, self.slots - self.running)


def tierer_room(tierers: Iterable[TiererRecord], running: int, now: Moment) -> TiererCapacity:
    """Returns the numbers of slots of the connected tierers. `running` is the number of running rounds."""
    alive = [tierer for tierer in tierers if not tierer.stopped and not now.passed(tierer.lost_deadline)]
    able = [tierer for tierer in alive if not tierer.fenced and not tierer.superseded]
    slots = sum(max(tierer.slots, 1) for tierer in able)
    return TiererCapacity(len(able), slots, sum(1 for tierer in alive if tierer.fenced), running)


def why_not_now(
    record: TableRecord,
    now: Moment,
    room: TiererCapacity,
    options: CoordinatorOptions,
    *,
    queued_before: int = 0,
    with_numbers: bool = True,
) -> list[Explanation]:
    """Returns every reason, not only the first one. `queued_before` is the number of tables that get a tierer before this one.

    `with_numbers` is False for a caller who may not see all tables, and must not count them.
    """
    if record.upkeep_runs and not record.granted:
        upkeep = Explanation(Decision.NOTE, f"{running_text(record, now)}, and ends when a round of this or another table needs its slot")
        resting = replace(record, state=TableState.SCHEDULED)
        room = replace(room, running=room.running - 1)
        return [upkeep, *why_not_now(resting, now, room, options, queued_before=queued_before, with_numbers=with_numbers)]
    if record.running is not None:
        return [_running(record, now), *_notes(record)]
    return [
        *_turn(record, options),
        *_pause(record, now),
        *_failure(record, now),
        *_due(record, now, options),
        *_room(room, with_numbers),
        *_queue(record, queued_before, with_numbers),
        *_notes(record),
    ]


def _running(record: TableRecord, now: Moment) -> Explanation:
    current = record.running
    assert current is not None
    return Explanation(Decision.RUNNING, f"round {current.round_id}: {running_text(record, now)}")


def _turn(record: TableRecord, options: CoordinatorOptions) -> Iterator[Explanation]:
    """Yields reasons from the assignment, where the cluster assigns tables."""
    if not options.assigned_by_cluster:
        return
    obstacle = why_not_written(record, options.lake_format)
    if obstacle is not None:
        yield Explanation(Decision.REFUSE, f"left to other tiering services: {obstacle}")
    elif record.assignment is not None and record.assignment.end is not None:
        yield Explanation(Decision.WAIT, "its last turn here has ended, the cluster is being notified of it, and assigns the table again")
    elif not record.has_turn:
        yield Explanation(
            Decision.WAIT, "the cluster assigns tables: it waits for its freshness there, or another tiering service holds the table"
        )
    if record.elsewhere is not None:
        elsewhere = record.elsewhere
        yield Explanation(Decision.NOTE, f"another tiering service brought the lake to snapshot {elsewhere.lake_snapshot_id}")


def _pause(record: TableRecord, now: Moment) -> Iterator[Explanation]:
    if record.pause is not None:
        yield Explanation(Decision.WAIT, f"{paused_text(record, now)}; CALL sys.resume_tiering('{record.path}') ends the pause")


def _failure(record: TableRecord, now: Moment) -> Iterator[Explanation]:
    error = record.error
    if record.state is TableState.FAILED and record.retry_deadline is None:
        yield Explanation(Decision.REFUSE, f"failed permanently, and is not retried automatically: {_error(error)}")
    elif record.state is TableState.FAILED and not now.passed(record.retry_deadline):
        until, failures = now.to_wall(record.retry_deadline), record.consecutive_failures
        assert record.retry_deadline is not None
        assert until is not None
        left = span_text(milliseconds(record.retry_deadline - now.steady))
        yield Explanation(
            Decision.WAIT,
            f"in back-off after {failures} failures in a row: retried in {left}, at {wall_text(until)}; last error: {_error(error)}",
        )
    elif error is not None:
        situation = (
            "a bucket stops, and the others are tiered" if is_bucket_stopped(error) else "its last round failed, and the next one retries"
        )
        yield Explanation(Decision.NOTE, f"{situation}: {_error(error)}")


def _error(error: ErrorInfo | None) -> str:
    if error is None:
        return "unknown"
    phase = f" in phase {error.phase}" if error.phase else ""
    return f"{error.error_class}{phase}: {error.message}" + (f" {error.hint}" if error.hint else "")


def _due(record: TableRecord, now: Moment, options: CoordinatorOptions) -> Iterator[Explanation]:
    if record.state is not TableState.SCHEDULED or record.call is not None or options.assigned_by_cluster:
        return
    begin = begin_deadline(record)
    if begin is not None and not now.passed(begin):
        wait, at = span_text(milliseconds(begin - now.steady)), now.to_wall(begin)
        assert at is not None
        freshness = span_text(record.freshness_ms)
        yield Explanation(
            Decision.WAIT,
            f"not due for {wait}, until {wall_text(at)}: its freshness is {freshness}; CALL sys.tier_table('{record.path}') does not wait",
        )


def _room(room: TiererCapacity, with_numbers: bool) -> Iterator[Explanation]:
    if room.tierers == 0:
        fenced = f"; {room.fenced} that run are fenced" if room.fenced else ""
        yield Explanation(Decision.WAIT, f"no tierer is connected{fenced}: start one with lakeward tierer")
    elif room.free == 0:
        numbers = f": {counted(room.running, 'round')} in {counted(room.slots, 'slot')}" if with_numbers else ""
        yield Explanation(Decision.WAIT, f"no tierer has a free slot{numbers}")


def _queue(record: TableRecord, queued_before: int, with_numbers: bool) -> Iterator[Explanation]:
    if record.state is TableState.PENDING and queued_before:
        tables = counted(queued_before, "table") if with_numbers else "other tables"
        yield Explanation(Decision.WAIT, f"queued behind {tables} that a CALL waits for, that are more overdue, or that wait longer")


def _notes(record: TableRecord) -> Iterator[Explanation]:
    """Yields what the next round has to do first, and what follows it."""
    if record.running is None and record.unresolved_commit:
        granted_commit = record.commit if record.granted else None
        commit = (
            f"the commit of round {granted_commit.round_id}"
            if granted_commit is not None
            else f"a commit of epoch {record.lake.unresolved_epoch}"
        )
        others = " Until then no other tiering service gets the table." if record.assignment is not None else ""
        yield Explanation(
            Decision.NOTE, f"{commit} was granted and its outcome is unknown: a round looks for it in the lake first.{others}"
        )
    if record.call is not None:
        yield Explanation(Decision.NOTE, f"a CALL by {record.call.caller} waits for the round {record.call.round_id} that follows")
