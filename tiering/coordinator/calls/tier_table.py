"""`CALL sys.tier_table` (DESIGN 5): brings the lake to the end offsets of the call.

The goal is a set of offsets, not a round. A call is done when the lake passes the base check now, for the same table id, with a marker that
has reached the offsets. It waits without a thread, and checks again whenever something about its table changed. Reads of the lake have
their own threads (`lake_probes`) and a time limit: while a lake's catalog hangs, a call continues as if its goal were not reached.

From top to bottom: the waiting, the coroutines that decide how a call continues, and their blocking parts, each of which runs in a thread.
`tier_table_rows.py` has the goal of a call, its rows and its errors.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

import structlog

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts, end_of_wait
from tiering.coordinator.call_support.record_change import lake_table, living_record, table_dropped
from tiering.coordinator.call_support.tier_table_rows import (
    Goal,
    cancelled_error,
    empty_row,
    error_of,
    goal_again,
    goal_fields,
    in_context,
    progress_of,
    row,
)
from tiering.coordinator.decisions import operator_requests
from tiering.coordinator.decisions.moment import milliseconds
from tiering.coordinator.decisions.operator_requests import check_callable, reach_stops
from tiering.coordinator.decisions.records import ErrorInfo, RoundRecord, TableRecord, from_text, to_text
from tiering.coordinator.memory.wake_ups import Subscription
from tiering.coordinator.observing.lake_probes import LakeProbe, Side, SideReporter
from tiering.lake.rules.base_check import Base, reaches
from tiering.model.rounds import RoundState
from tiering.model.states import TableState
from tiering.model.tables import TableType
from tiering.procedures.base import Pool, Progress
from tiering.procedures.tier_table import TierTable, TierTableResult

_log = structlog.get_logger(__name__)
StepResult = TypeVar("StepResult")

CHECK_AGAIN_MS = 1_000
"""Pause between reads of a lake that does not answer."""
FIRST_LOOK_MS = 2_000
"""After this wait for its first read of the lake, a call requests a round, which finds out whether there is something to do."""


async def tier_table(parts: CallParts, request: TierTable) -> AsyncGenerator[Progress | TierTableResult, None]:
    """Tiers the table. Closing it ends the wait, not the round.

    Raises UnknownTable, LakeDisabled, TablePaused, InvalidArgument; the round's own error if it failed.
    """
    call = _Call(parts, request)
    goal = await call.begin()
    if isinstance(goal, TierTableResult):
        yield goal
        return
    progress: Progress | None = None
    with parts.table_records.wake_ups.subscribe() as changes:
        while True:
            before = _signature(parts, goal)
            step = await call.advance(goal)
            if isinstance(step, TierTableResult):
                yield step
                return
            goal = step.goal
            if step.progress != progress:
                progress = step.progress
                yield progress
            if not request.wait or (reason := end_of_wait(parts, request, goal.started_since)):
                if request.wait:
                    yield replace(progress, message=f"{reason}: {progress.message}")
                yield await call.in_thread(call.as_it_stands, goal)
                return
            await _until_worth_looking(parts, changes, request, step, before)


async def _until_worth_looking(parts: CallParts, changes: Subscription, request: TierTable, step: Waiting, before: object) -> None:
    """Returns once something about the call changed. Ticks wake every waiting call, and each look is a request to the lake."""
    while before == _signature(parts, step.goal) and not end_of_wait(parts, request, step.goal.started_since):
        if step.check_at is not None and parts.table_records.now().passed(step.check_at):
            return
        await changes.wait()


def _signature(parts: CallParts, goal: Goal) -> object:
    """Returns everything about a table that can change the call's state: equal signatures give equal answers."""
    record = parts.table_records.get(goal.table_id)
    if record is None or parts.table_records.fenced is not None:
        return None
    return record.state, record.tiering_epoch, record.round, record.call, record.pause, record.shown_snapshot_id, record.has_turn


@dataclass(frozen=True)
class Waiting:
    """The call is not done. `check_at` is when to check again (steady time), even if nothing changes."""

    goal: Goal
    progress: Progress
    check_at: datetime | None = None


class _Call:
    """The work of a call between its waits: `begin`, then a `advance` whenever something changed.

    Its other methods block on the store and the cluster, so they run in a thread, but never under the records' lock.
    """

    def __init__(self, parts: CallParts, request: TierTable) -> None:
        self._parts = parts
        self._request = request
        self._probes = parts.probes
        self._threads = parts.threads
        self._table_records = parts.table_records
        self._cluster = parts.cluster
        self._lakes = parts.lakes
        self._observer = parts.observer
        self._operations = parts.operations
        self._since = parts.table_records.now().steady

    async def begin(self) -> TierTableResult | Goal:
        """Returns the result if nothing is left to do, otherwise the goal with the round that was joined or queued for it.

        A known idempotency key attaches to the earlier call's goal, or ends like that call. Raises UnknownTable, UnknownDatabase,
        LakeDisabled, TablePaused, ClusterUnavailable, InvalidArgument (the key names another call).
        """
        earlier_or_new = await self.in_thread(self._earlier_or_new_call)
        if isinstance(earlier_or_new, TierTableResult | Goal):
            return earlier_or_new
        goal, record = earlier_or_new
        # A failed table gets a round even with nothing to do, because only a round can clear the failure.
        base = None if record.state is TableState.FAILED else await self._reached(record, goal, min(self._left_ms(), FIRST_LOOK_MS))
        if base is not None:
            return await self.in_thread(self._nothing_to_do, goal, record, base)
        if self._request.dry_run:
            return await self.in_thread(self._would_do, goal, record)
        return await self.in_thread(self._ask, goal)

    async def advance(self, goal: Goal) -> TierTableResult | Waiting:
        """Returns the result, or why the call still waits.

        Raises its round's error, TablePaused while the round is queued, UnknownTable once the table is dropped.
        """
        record, current = await self.in_thread(self._present, goal)
        if current is not None and current.state.is_final:
            return await self._look_after_round(goal, record, current)
        if current is None and (record.call is None or record.call.round_id != goal.round_id):
            return await self.in_thread(self._ask_again, goal)
        if record.pause is not None and (current is None or current.state is RoundState.QUEUED):
            check_callable(record)
        return await self._look_during_round(goal, record) or Waiting(goal, self._progress(record, current))

    async def in_thread(self, work: Callable[..., StepResult], *arguments: object) -> StepResult:
        """Runs work that blocks on the store or the cluster."""
        return await self._threads.run(Pool.LAKE_LOOK, partial(work, *arguments))

    async def _look_after_round(self, goal: Goal, record: TableRecord, ended: RoundRecord) -> TierTableResult | Waiting:
        if ended.state is RoundState.FAILED and ended.error is not None:
            raise await self.in_thread(self._end_badly, goal, in_context(ended.error, record.path, ended.round_id))
        if ended.state is RoundState.CANCELLED:
            raise await self.in_thread(self._end_badly, goal, cancelled_error(record, ended, self._table_records.now().wall))
        try:
            base = await self._probes.within(self._left_ms(), self._check(record, goal))
        except errors.TransientTieringError as error:
            progress = Progress(f"the round ended; reading the lake: {error.message}")
            return Waiting(goal, progress, self._table_records.now().after(CHECK_AGAIN_MS))
        is_forced = ended.state is RoundState.FORCE_FINISHED  # the next round continues at once, even if a bucket stops
        # The table failed because of repeated fences, or a bucket stops.
        if base is None and ended.error is not None and ended.error == record.error and not is_forced:
            raise await self.in_thread(self._end_badly, goal, in_context(ended.error, record.path, ended.round_id))
        if base is None:
            return await self.in_thread(self._ask_again, goal)
        if ended.state is RoundState.FENCED:
            return await self.in_thread(self._reached_by_another, goal, record, base)
        return await self.in_thread(self._end_well, goal, ended, ended.state, record, base)

    async def _look_during_round(self, goal: Goal, record: TableRecord) -> TierTableResult | Waiting | None:
        """Ends a call whose goal any round reached before its own round ended: only the lake counts. None if there is nothing new."""
        newest, now = record.shown_snapshot_id, self._table_records.now()
        if newest == goal.seen_snapshot_id or not reach_stops(record.shown_offsets, goal.targets, goal.log_starts):
            return None
        running = record.running
        # An ack in the future is from before the clock was set back, so its grace has ended, too.
        grace = self._table_records.options.stats_grace_ms - milliseconds(abs(now.wall - (record.last_tiered_time or now.wall)))
        if running is not None and running.acked and grace > 0:
            # The statistics come with the tierer's next heartbeat, if it still lives.
            return Waiting(goal, Progress(f"round {running.round_id} of {record.path} is in the lake", running.progress), now.after(grace))
        base = await self._reached(record, goal, self._left_ms())
        if base is None:
            current = await self.in_thread(self._round, record, goal)
            return Waiting(replace(goal, seen_snapshot_id=newest), self._progress(record, current))
        return await self.in_thread(self._reached_by_another, goal, record, base)

    async def _reached(self, record: TableRecord, goal: Goal, look_ms: float) -> Base | None:
        """Returns the base if the goal is reached; None also for a damaged or unavailable lake, whose errors a round will report."""
        try:
            return await self._probes.within(look_ms, self._check(record, goal))
        except (errors.PermanentTieringError, errors.TransientTieringError) as error:
            _log.debug("the lake table does not pass the check now", table=str(record.path), error=error.message)
            return None

    def _left_ms(self) -> float:
        """Returns how long a read of the lake may take, in milliseconds."""
        limit = self._request.timeout_ms if self._request.wait else FIRST_LOOK_MS
        return limit - self._table_records.now().milliseconds_since(self._since)

    def _check(self, record: TableRecord, goal: Goal) -> LakeProbe[Base | None]:
        """Returns a look that checks the lake table now and returns its base if it has reached the goal. Raises base check errors."""
        return LakeProbe(goal.path, goal.table_id, partial(self._base_at, record, goal))

    def _base_at(self, record: TableRecord, goal: Goal, report_side: SideReporter) -> Base | None:
        report_side(Side.CLUSTER)
        info = self._cluster.table(record.path)
        if info.table_id != goal.table_id:
            raise table_dropped(goal.path, goal.table_id)
        base = self._lakes.base(record, info, report_side)
        living = {partition.partition_id for partition in self._cluster.partitions(info)} if info.partition_keys else ()
        if not reaches(base.ranges, from_text(goal.targets), from_text(goal.log_starts), living):
            return None
        report_side(Side.CLUSTER)
        self._lakes.check_log(info, base)
        return base

    def _earlier_or_new_call(self) -> TierTableResult | Goal | tuple[Goal, TableRecord]:
        """Returns the result or the goal of the earlier call with this key, or else a new goal and its table's record."""
        earlier = self._operations.earlier_call(self._request)
        if earlier is not None:
            if earlier.error is not None:
                raise error_of(earlier.error)
            answer = self._operations.answer(self._request)
            return answer or goal_again(self._request.path, earlier, self._table_records.now().steady)
        goal = self._new_goal()
        record = self._live(goal)
        check_callable(record)
        return goal, record

    def _new_goal(self) -> Goal:
        path, since = self._request.path, self._table_records.now().steady
        info, record = lake_table(self._parts, path)
        offsets = self._cluster.offsets(info)
        # Records that a log table's log lost at its start are out of reach. A primary-key table's KV snapshot still has them.
        starts = {bucket: log.log_start for bucket, log in offsets.items() if info.table_type is TableType.LOG}
        return Goal(
            path=path,
            table_id=info.table_id,
            targets=to_text({bucket: log.log_end for bucket, log in offsets.items()}),
            log_starts=to_text(starts),
            started_since=since,
            lag_ms_before=self._lag_ms(record),
            seen_snapshot_id=record.shown_snapshot_id,
        )

    def _present(self, goal: Goal) -> tuple[TableRecord, RoundRecord | None]:
        """Returns the table's record, and the round that the call expects."""
        if self._table_records.fenced is not None:
            raise self._table_records.fenced
        record = self._live(goal)
        return record, self._round(record, goal)

    def as_it_stands(self, goal: Goal) -> TierTableResult:
        """Returns the row of a call that ends before its round does: the table's state, and the round that continues."""
        record = self._live(goal)
        assert record.state is not None
        return row(
            goal, record.state.value, record, self._round(record, goal), self._table_records.now(), lag_ms_after=self._lag_ms(record)
        )

    def _reached_by_another(self, goal: Goal, record: TableRecord, base: Base) -> TierTableResult:
        """Returns a row about the round that the marker names, if it is known. A snapshot of another service has no round."""
        is_ours = base.view is None or base.view.tiered == base.newest
        round_id = base.marker.round_id if base.marker and is_ours else None
        reached = replace(goal, round_id=round_id)
        return self._end_well(reached, self._round(record, reached), RoundState.SUCCEEDED, record, base)

    def _nothing_to_do(self, goal: Goal, record: TableRecord, base: Base) -> TierTableResult:
        result = empty_row(goal, record, base.newest, self._table_records.now(), self._lag_ms(record))
        self._ended(goal, result)
        return result

    def _would_do(self, goal: Goal, record: TableRecord) -> TierTableResult:
        """Returns the row of a dry run: the round that would be joined, or QUEUED."""
        context = self._table_records.context(self._request.caller)
        called = operator_requests.call(context, record, goal.targets, goal.log_starts, recorded=record.lake.offsets)
        joined = self._round(record, replace(goal, round_id=called.round_id)) if called.joined else None
        state = joined.state if joined else RoundState.QUEUED
        shown = replace(goal, round_id=joined.round_id if joined else None)
        return row(shown, state.value, record, joined, self._table_records.now(), lag_ms_after=goal.lag_ms_before)

    def _ask(self, goal: Goal) -> Goal:
        """Joins or queues a round, and stores the operation in the same write."""
        with self._table_records.changing():
            record = self._live(goal)
            called = operator_requests.call(
                self._table_records.context(self._request.caller),
                record,
                goal.targets,
                goal.log_starts,
                recorded=record.lake.offsets,
                idempotency_key=self._request.idempotency_key,
            )
            started_operations = self._operations.started_operations(self._request, goal.table_id, called.round_id, goal_fields(goal))
            self._table_records.put(called.change, operations=started_operations)
        return replace(goal, round_id=called.round_id)

    def _ask_again(self, goal: Goal) -> Waiting:
        """Requests another round, because the expected one ended short of the goal: early, fenced, or after a rollback by a user."""
        return Waiting(self._ask(goal), Progress(f"another round of {goal.path} follows"), self._table_records.now().steady)

    def _end_well(self, goal: Goal, ended: RoundRecord | None, state: RoundState, record: TableRecord, base: Base) -> TierTableResult:
        lag = self._lag_ms(record)
        result = row(goal, state.value, record, ended, self._table_records.now(), lake_snapshot_id=base.newest, lag_ms_after=lag)
        self._ended(goal, result)
        return result

    def _end_badly(self, goal: Goal, error: ErrorInfo) -> errors.LakewardError:
        self._ended(goal, error)
        return error_of(error)

    def _ended(self, goal: Goal, outcome: TierTableResult | ErrorInfo) -> None:
        with self._table_records.changing():
            ended = self._operations.done(self._request, goal.table_id, outcome, goal.round_id, goal_fields(goal))
            if ended:
                self._table_records.put(operations=ended)

    def _lag_ms(self, record: TableRecord) -> int | None:
        lag = self._observer.observe(record)
        return None if lag is None else lag.age_ms(self._table_records.now().wall)

    def _progress(self, record: TableRecord, current: RoundRecord | None) -> Progress:
        return progress_of(record, current, needs_turn=self._table_records.options.assigned_by_cluster)

    def _round(self, record: TableRecord, goal: Goal) -> RoundRecord | None:
        """Returns the round that the call expects; None if it is queued behind the running one, or unknown."""
        if record.round is not None and record.round.round_id == goal.round_id:
            return record.round
        return self._table_records.store.round(goal.round_id) if goal.round_id else None

    def _live(self, goal: Goal) -> TableRecord:
        return living_record(self._parts, goal.path, goal.table_id)
