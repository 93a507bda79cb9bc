"""`CALL sys.tier_table` (DESIGN 5): brings the lake to the end offsets of the call.

The goal is a set of offsets, not a round. A call is done when the lake passes the base check now, for the same table id, with a marker that
has reached the offsets. It waits without a thread, and checks again whenever something about its table changed. Reads of the lake have
their own threads (`lake_looks`) and a time limit: while a lake's catalog hangs, a call continues as if its goal were not reached.

From top to bottom: the request, the waiting, and the steps of a call (`_Steps`). `tier_table_rows.py` has its goal, rows and errors.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import structlog

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts
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
from tiering.coordinator.observing.lake_looks import Asking, LakeLook, Side
from tiering.lake.rules.base_check import Base, reaches
from tiering.model.rounds import RoundState
from tiering.model.states import TableState
from tiering.model.tables import TableInfo, TableType
from tiering.procedures.base import Pool, Progress
from tiering.procedures.tier_table import TierTable, TierTableResult

_log = structlog.get_logger(__name__)
StepResult = TypeVar("StepResult")

LOOK_AGAIN_MS = 1_000
"""Pause between reads of a lake that does not answer."""
FIRST_LOOK_MS = 2_000
"""After this wait for its first read of the lake, a call requests a round, which finds out whether there is something to do."""


async def tier_table(parts: CallParts, request: TierTable) -> AsyncGenerator[Progress | TierTableResult, None]:
    """Tiers the table. Closing it ends the wait, not the round.

    Raises UnknownTable, LakeDisabled, TablePaused, InvalidArgument; the round's own error if it failed.
    """
    steps, since = _Steps(parts), parts.table_records.now().steady
    goal = await _advance(parts, steps.begin(request), lambda: min(_left_ms(parts, request, since), FIRST_LOOK_MS))
    if isinstance(goal, TierTableResult):
        yield goal
        return
    progress: Progress | None = None
    with parts.table_records.wake_ups.subscribe() as changes:
        while True:
            before = _signature(parts, goal)
            step = await _advance(parts, steps.look(request, goal), lambda: _left_ms(parts, request, since))
            if isinstance(step, Ended):
                yield step.result
                return
            goal = step.goal
            if step.progress != progress:
                progress = step.progress
                yield progress
            if not request.wait or (reason := _end_of_wait(parts, request, goal)):
                if request.wait:
                    yield replace(progress, message=f"{reason}: {progress.message}")
                yield await parts.threads.run(Pool.LAKE_LOOK, partial(steps.as_it_stands, goal))
                return
            await _until_worth_looking(parts, changes, request, step, before)


async def _advance(parts: CallParts, steps: _Looking[StepResult], look_ms: Callable[[], float]) -> StepResult:
    """Runs blocking steps in a thread, and each read of the lake that they request in the threads for looks, for at most `look_ms`."""
    next_step = partial(next, steps)
    while True:
        look = await parts.threads.run(Pool.LAKE_LOOK, partial(_until_look, next_step))
        if isinstance(look, _Finished):
            result: StepResult = look.result
            return result
        try:
            next_step = partial(steps.send, await parts.looks.within(look_ms(), look))
        except errors.LakewardError as error:
            next_step = partial(steps.throw, error)


def _until_look(next_step: Callable[[], LakeLook[Base | None]]) -> LakeLook[Base | None] | _Finished[Any]:
    """Returns the next look that the steps request, or their result. A future cannot carry a StopIteration."""
    try:
        return next_step()
    except StopIteration as end:
        return _Finished(end.value)


def _left_ms(parts: CallParts, request: TierTable, since: datetime) -> float:
    """Returns how long a read of the lake may take, in milliseconds."""
    return (request.timeout_ms if request.wait else FIRST_LOOK_MS) - parts.table_records.now().milliseconds_since(since)


async def _until_worth_looking(parts: CallParts, changes: Subscription, request: TierTable, step: Waiting, before: object) -> None:
    """Returns once something about the call changed. Ticks wake every waiting call, and each look is a request to the lake."""
    while before == _signature(parts, step.goal) and not _end_of_wait(parts, request, step.goal):
        if step.look_at is not None and parts.table_records.now().passed(step.look_at):
            return
        await changes.wait()


def _end_of_wait(parts: CallParts, request: TierTable, goal: Goal) -> str | None:
    """Returns why the wait ends before the goal is reached, for the caller; None while it continues."""
    now, options = parts.table_records.now(), parts.table_records.options
    waited = now.milliseconds_since(goal.started_since)
    if parts.stopping.is_set():
        return "the service stops"
    has_tierer = parts.tierer_connected()
    if waited >= request.timeout_ms:
        return f"not done within {request.timeout_ms} ms" + ("" if has_tierer else ", and no tierer is connected")
    if not request.wait_for_tierer and waited >= options.tierer_grace_ms and not has_tierer:
        return "no tierer is connected"
    return None


def _signature(parts: CallParts, goal: Goal) -> object:
    """Returns everything about a table that can change the call's state: equal signatures give equal answers."""
    record = parts.table_records.get(goal.table_id)
    if record is None or parts.table_records.fenced is not None:
        return None
    return record.state, record.tiering_epoch, record.round, record.call, record.pause, record.shown_snapshot_id, record.has_turn


@dataclass(frozen=True)
class Ended:
    """The call is done."""

    result: TierTableResult


@dataclass(frozen=True)
class Waiting:
    """The call is not done. `look_at` is when to check again (steady time), even if nothing changes."""

    goal: Goal
    progress: Progress
    look_at: datetime | None = None


@dataclass(frozen=True)
class _Finished(Generic[StepResult]):
    """The result of steps."""

    result: StepResult


_Looking: TypeAlias = Generator[LakeLook["Base | None"], "Base | None", StepResult]
"""Steps that yield each look at the lake that they need. The caller sends its result or throws its error."""


class _Steps:
    """The work of a call between its waits: `begin`, then a `look` whenever something changed.

    The methods block on the store and the cluster, never under the records' lock. They wait for the lake outside, at each `yield`.
    """

    def __init__(self, parts: CallParts) -> None:
        self._table_records = parts.table_records
        self._cluster = parts.cluster
        self._lakes = parts.lakes
        self._discovery = parts.discovery
        self._observer = parts.observer
        self._operations = parts.operations

    def begin(self, request: TierTable) -> _Looking[TierTableResult | Goal]:
        """Returns the result if nothing is left to do, otherwise the goal with the round that was joined or queued for it.

        A known idempotency key attaches to the earlier call's goal, or ends like that call. Raises UnknownTable, UnknownDatabase,
        LakeDisabled, TablePaused, ClusterUnavailable, InvalidArgument (the key names another call).
        """
        earlier = self._operations.earlier_call(request)
        if earlier is not None:
            if earlier.error is not None:
                raise error_of(earlier.error)
            return self._operations.answer(request) or goal_again(request.path, earlier, self._table_records.now().steady)
        goal = self._goal(request)
        record = self._live(goal)
        check_callable(record)
        # A failed table gets a round even with nothing to do, because only a round can clear the failure.
        if record.state is not TableState.FAILED and (base := (yield from self._reached(record, goal))) is not None:
            return self._nothing_to_do(request, goal, record, base)
        if request.dry_run:
            return self._would_do(request, goal, record)
        return self._ask(request, goal)

    def _goal(self, request: TierTable) -> Goal:
        since = self._table_records.now().steady
        info = self._cluster.table(request.path)
        if not info.lake_enabled:
            raise errors.LakeDisabled(f"{request.path} has its lake disabled", table_id=info.table_id)
        record = self._record(info)
        offsets = self._cluster.offsets(info)
        # Records that a log table's log lost at its start are out of reach. A primary-key table's KV snapshot still has them.
        starts = {bucket: log.log_start for bucket, log in offsets.items() if info.table_type is TableType.LOG}
        return Goal(
            path=request.path,
            table_id=info.table_id,
            targets=to_text({bucket: log.log_end for bucket, log in offsets.items()}),
            log_starts=to_text(starts),
            started_since=since,
            lag_ms_before=self._lag_ms(record),
            seen_snapshot_id=record.shown_snapshot_id,
        )

    def look(self, request: TierTable, goal: Goal) -> _Looking[Ended | Waiting]:
        """Returns the call's state. Raises its round's error, TablePaused while it is queued, UnknownTable once the table is dropped."""
        if self._table_records.fenced is not None:
            raise self._table_records.fenced
        record = self._live(goal)
        current = self._round(record, goal)
        if current is not None and current.state.is_final:
            return (yield from self._look_at_ended(request, goal, record, current))
        if current is None and (record.call is None or record.call.round_id != goal.round_id):
            return self._ask_again(request, goal)
        if record.pause is not None and (current is None or current.state is RoundState.QUEUED):
            check_callable(record)
        return (yield from self._look_at_lake(request, goal, record)) or Waiting(goal, self._progress(record, current))

    def as_it_stands(self, goal: Goal) -> TierTableResult:
        """Returns the row of a call that ends before its round does: the table's state, and the round that continues."""
        record = self._live(goal)
        assert record.state is not None
        return row(
            goal, record.state.value, record, self._round(record, goal), self._table_records.now(), lag_ms_after=self._lag_ms(record)
        )

    def _look_at_ended(self, request: TierTable, goal: Goal, record: TableRecord, ended: RoundRecord) -> _Looking[Ended | Waiting]:
        if ended.state is RoundState.FAILED and ended.error is not None:
            raise self._end_badly(request, goal, in_context(ended.error, record.path, ended.round_id))
        if ended.state is RoundState.CANCELLED:
            raise self._end_badly(request, goal, cancelled_error(record, ended, self._table_records.now().wall))
        try:
            base = yield self._check(record, goal)
        except errors.TransientTieringError as error:
            progress = Progress(f"the round ended; reading the lake: {error.message}")
            return Waiting(goal, progress, self._table_records.now().after(LOOK_AGAIN_MS))
        is_forced = ended.state is RoundState.FORCE_FINISHED  # the next round continues at once, even if a bucket stops
        # The table failed because of repeated fences, or a bucket stops.
        if base is None and ended.error is not None and ended.error == record.error and not is_forced:
            raise self._end_badly(request, goal, in_context(ended.error, record.path, ended.round_id))
        if base is None:
            return self._ask_again(request, goal)
        if ended.state is RoundState.FENCED:
            return Ended(self._reached_by_another(request, goal, record, base))
        return Ended(self._end_well(request, goal, ended, ended.state, record, base))

    def _look_at_lake(self, request: TierTable, goal: Goal, record: TableRecord) -> _Looking[Ended | Waiting | None]:
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
        base = yield from self._reached(record, goal)
        if base is None:
            return Waiting(replace(goal, seen_snapshot_id=newest), self._progress(record, self._round(record, goal)))
        return Ended(self._reached_by_another(request, goal, record, base))

    def _reached_by_another(self, request: TierTable, goal: Goal, record: TableRecord, base: Base) -> TierTableResult:
        """Returns a row about the round that the marker names, if it is known. A snapshot of another service has no round."""
        is_ours = base.view is None or base.view.tiered == base.newest
        round_id = base.marker.round_id if base.marker and is_ours else None
        reached = replace(goal, round_id=round_id)
        return self._end_well(request, reached, self._round(record, reached), RoundState.SUCCEEDED, record, base)

    def _nothing_to_do(self, request: TierTable, goal: Goal, record: TableRecord, base: Base) -> TierTableResult:
        snapshot_id = base.newest
        result = empty_row(goal, record, snapshot_id, self._table_records.now(), self._lag_ms(record))
        self._ended(request, goal, result)
        return result

    def _would_do(self, request: TierTable, goal: Goal, record: TableRecord) -> TierTableResult:
        """Returns the row of a dry run: the round that would be joined, or QUEUED."""
        called = operator_requests.call(
            self._table_records.context(request.caller), record, goal.targets, goal.log_starts, recorded=record.lake.offsets
        )
        joined = self._round(record, replace(goal, round_id=called.round_id)) if called.joined else None
        state = joined.state if joined else RoundState.QUEUED
        shown = replace(goal, round_id=joined.round_id if joined else None)
        return row(shown, state.value, record, joined, self._table_records.now(), lag_ms_after=goal.lag_ms_before)

    def _ask(self, request: TierTable, goal: Goal) -> Goal:
        """Joins or queues a round, and stores the operation in the same write."""
        with self._table_records.changing():
            record = self._live(goal)
            called = operator_requests.call(
                self._table_records.context(request.caller),
                record,
                goal.targets,
                goal.log_starts,
                recorded=record.lake.offsets,
                idempotency_key=request.idempotency_key,
            )
            expected_goal = replace(goal, round_id=called.round_id)
            begun = self._operations.begun(request, goal.table_id, called.round_id, goal_fields(goal))
            self._table_records.put(called.change, operations=begun)
        return expected_goal

    def _ask_again(self, request: TierTable, goal: Goal) -> Waiting:
        """Requests another round, because the expected one ended short of the goal: early, fenced, or after a rollback by a user."""
        return Waiting(self._ask(request, goal), Progress(f"another round of {goal.path} follows"), self._table_records.now().steady)

    def _end_well(
        self, request: TierTable, goal: Goal, ended: RoundRecord | None, state: RoundState, record: TableRecord, base: Base
    ) -> TierTableResult:
        snapshot_id = base.newest
        lag = self._lag_ms(record)
        result = row(goal, state.value, record, ended, self._table_records.now(), lake_snapshot_id=snapshot_id, lag_ms_after=lag)
        self._ended(request, goal, result)
        return result

    def _end_badly(self, request: TierTable, goal: Goal, error: ErrorInfo) -> errors.LakewardError:
        self._ended(request, goal, error)
        return error_of(error)

    def _ended(self, request: TierTable, goal: Goal, outcome: TierTableResult | ErrorInfo) -> None:
        with self._table_records.changing():
            ended = self._operations.done(request, goal.table_id, outcome, goal.round_id, goal_fields(goal))
            if ended:
                self._table_records.put(operations=ended)

    def _reached(self, record: TableRecord, goal: Goal) -> _Looking[Base | None]:
        """Returns the base if the goal is reached; None also for a damaged or unavailable lake, whose errors a round will report."""
        try:
            return (yield self._check(record, goal))
        except (errors.PermanentTieringError, errors.TransientTieringError) as error:
            _log.debug("the lake table does not pass the check now", table=str(record.path), error=error.message)
            return None

    def _check(self, record: TableRecord, goal: Goal) -> LakeLook[Base | None]:
        """Returns a look that checks the lake table now and returns its base if it has reached the goal. Raises base check errors."""
        return LakeLook(goal.path, goal.table_id, partial(self._base_at, record, goal))

    def _base_at(self, record: TableRecord, goal: Goal, asking: Asking) -> Base | None:
        asking(Side.CLUSTER)
        info = self._cluster.table(record.path)
        if info.table_id != goal.table_id:
            raise self._table_dropped(goal)
        base = self._lakes.base(record, info, asking)
        living = {partition.partition_id for partition in self._cluster.partitions(info)} if info.partition_keys else ()
        if not reaches(base.ranges, from_text(goal.targets), from_text(goal.log_starts), living):
            return None
        asking(Side.CLUSTER)
        self._lakes.check_log(info, base)
        return base

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

    def _record(self, info: TableInfo) -> TableRecord:
        """Returns the table's record, even if the table is new."""
        record = self._table_records.get(info.table_id)
        if record is None:
            self._discovery.run()
            record = self._table_records.get(info.table_id)
        if record is None:
            raise errors.UnknownTable(f"{info.path} is not a lake table any more", table_id=info.table_id)
        return record

    def _live(self, goal: Goal) -> TableRecord:
        record = self._table_records.get(goal.table_id)
        if record is None:
            raise self._table_dropped(goal)
        return record

    def _table_dropped(self, goal: Goal) -> errors.UnknownTable:
        return errors.UnknownTable(f"{goal.path} was dropped or recreated, or its lake was disabled", table_id=goal.table_id)
