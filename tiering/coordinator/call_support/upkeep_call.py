"""Common parts of the procedures that request upkeep rounds: `rewrite_data_files`, `expire_snapshots`, `rewrite_manifests`.

A call queues a request for its table, and waits without a thread until the request has ended. The coordinator starts a round for it when a
slot is free that no table needs for tiering, and further rounds while work is left. So the request continues if the call ends earlier.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias

from tiering import errors
from tiering.coordinator.call_support.lake_outlook import outlook_of, planned_stats
from tiering.coordinator.call_support.parts import CallParts, end_of_wait
from tiering.coordinator.call_support.record_change import lake_table, living_record
from tiering.coordinator.call_support.tier_table_rows import error_of, in_context
from tiering.coordinator.decisions.records import EndedUpkeep, ErrorInfo, OperationRecord, RoundRecord, TableRecord, UpkeepOutcome
from tiering.coordinator.decisions.upkeep import requests as upkeep
from tiering.coordinator.decisions.upkeep.outcomes import total_stats
from tiering.coordinator.memory.wake_ups import Subscription
from tiering.lake.maintenance import ExpiryOutlook
from tiering.lake.rules.upkeep.snapshot_expiry import REMOVED_AT_ONCE
from tiering.model.tables import TableInfo
from tiering.model.upkeep import UpkeepOrder, UpkeepStats
from tiering.procedures.base import Pool, Progress, UpkeepCallOutcome, UpkeepResult
from tiering.procedures.expire_snapshots import ExpireSnapshots
from tiering.procedures.rewrite_data_files import RewriteDataFiles
from tiering.procedures.rewrite_manifests import RewriteManifests

MAX_EXPIRIES = 1_000
"""Upper bound of consecutive requests of one expiry. Each removes up to REMOVED_AT_ONCE snapshots, and adds one or two."""

MAX_OVERTAKEN = 3
"""Upper bound of consecutive further requests of an expiry whose rounds removed nothing.

If a round's first commit conflicts with another commit, the round repeats it without the removal, so that upkeep never delays a commit.
"""
OWN_SNAPSHOTS = 1
"""Snapshots that become removable only because the round of an expiry has committed, too."""

NO_PARTITION = "no partition of the source table matches 'where'; partitions that the source table dropped are not rewritten"
"""Answer to a condition that is true for no living partition."""


UpkeepRequest: TypeAlias = RewriteDataFiles | ExpireSnapshots | RewriteManifests

OrderOf: TypeAlias = "Callable[[CallParts, TableInfo], UpkeepOrder]"
"""Returns the order of a call. It may ask the cluster; raises InvalidArgument."""


@dataclass(frozen=True)
class Goal:
    """The request that a call waits for. `stats` and `rounds` are those of the call's earlier requests.

    `overtaken` is the number of its latest requests that removed no snapshot, although some could be removed.
    """

    table_id: int
    request_id: str
    order: UpkeepOrder
    started_since: datetime
    rounds: int = 0
    stats: UpkeepStats | None = None
    requests: int = 1
    overtaken: int = 0


@dataclass(frozen=True)
class Waiting:
    """The request has not ended."""

    goal: Goal
    outcome: UpkeepCallOutcome
    progress: Progress
    round_id: str | None = None


async def perform_upkeep(parts: CallParts, request: UpkeepRequest, order_of: OrderOf) -> AsyncGenerator[Progress | UpkeepResult, None]:
    """Performs upkeep. Closing it ends the wait, not the request.

    Raises UnknownTable, LakeDisabled, TablePaused, InvalidArgument, ServiceBusy; the error of its round if that failed.
    """
    steps, progress = _Steps(parts, request, order_of), None
    step: Goal | Waiting | UpkeepResult = await parts.threads.run(Pool.LAKE_LOOK, steps.begin)
    with parts.table_records.wake_ups.subscribe() as changes:
        while not isinstance(step, UpkeepResult):
            goal = step if isinstance(step, Goal) else step.goal
            before = _signature(parts, goal)
            step = await parts.threads.run(Pool.LAKE_LOOK, partial(steps.advance, goal))
            if isinstance(step, Goal):
                continue
            if isinstance(step, Waiting):
                if step.progress != progress:
                    progress = step.progress
                    yield progress
                if (reason := _end_of_wait(parts, request, step.goal)) is not None:
                    step = steps.as_it_stands(step, reason)
                else:
                    await _until_worth_looking(parts, changes, request, step.goal, before)
    yield step


async def _until_worth_looking(parts: CallParts, changes: Subscription, request: UpkeepRequest, goal: Goal, before: object) -> None:
    """Returns once something about the call changed, because ticks wake every waiting call."""
    while before == _signature(parts, goal) and _end_of_wait(parts, request, goal) is None:
        await changes.wait()


def _end_of_wait(parts: CallParts, request: UpkeepRequest, goal: Goal) -> str | None:
    """Returns why the wait ends before the request has ended, for the caller; None while it continues."""
    return end_of_wait(parts, request, goal.started_since) if request.wait else "the call did not wait"


def _signature(parts: CallParts, goal: Goal) -> object:
    """Returns everything about a table that can change the call's state: equal signatures give equal answers."""
    record = parts.table_records.get(goal.table_id)
    if record is None or parts.table_records.fenced is not None:
        return None
    return record.state, record.tiering_epoch, record.round, record.upkeep, record.pause, record.has_turn


class _Steps:
    """The work of a call between its waits: `begin`, then a `advance` whenever something changed. The methods block."""

    def __init__(self, parts: CallParts, request: UpkeepRequest, order_of: OrderOf) -> None:
        self._parts = parts
        self._request = request
        self._order_of = order_of
        self._table_records = parts.table_records
        self._operations = parts.operations

    def begin(self) -> Goal | UpkeepResult:
        """Returns the request that the call waits for, or the answer. A known idempotency key attaches to the earlier call's request.

        Raises UnknownTable, UnknownDatabase, LakeDisabled, TablePaused, InvalidArgument, ServiceBusy, ClusterUnavailable.
        """
        request, since = self._request, self._table_records.now().steady
        earlier = self._operations.earlier_call(request)
        if earlier is not None and earlier.error is not None:
            raise error_of(earlier.error)
        if earlier is not None and (answer := self._operations.answer(request)) is not None:
            return answer
        if earlier is not None and earlier.table_id is not None and earlier.round_id is not None:
            return self._attached(earlier, since)
        info, record = lake_table(self._parts, request.path)
        order = self._order_of(self._parts, info)
        upkeep.check_may_request(record)
        if order.partitions is not None and not order.partitions:
            return self._with_answer(record, UpkeepResult(request.path, UpkeepCallOutcome.EMPTY, NO_PARTITION))
        if request.dry_run:
            stats, kept = planned_stats(self._parts, info, order)
            return UpkeepResult(request.path, UpkeepCallOutcome.PLANNED, stats=stats, kept=kept)
        return self._queue(Goal(record.table_id, "", order, since))

    def advance(self, goal: Goal) -> Goal | Waiting | UpkeepResult:
        """Returns the state of the request. Raises its round's error, RoundCancelled, UnknownTable once the table is dropped."""
        if self._table_records.fenced is not None:
            raise self._table_records.fenced
        record = self._live(goal)
        state = upkeep.request_state(record, goal.request_id)
        if isinstance(state, EndedUpkeep):
            return self._ended(goal, record, state)
        if state is None:
            reason = "it ended long ago: sys.lake_upkeep has its rounds"
            return UpkeepResult(record.path, UpkeepCallOutcome.UNKNOWN, reason, goal.request_id)
        if isinstance(state, RoundRecord):
            text = f"upkeep round {state.round_id} of {record.path} runs on the tierer {state.tierer_id}"
            return Waiting(goal, UpkeepCallOutcome.RUNNING, Progress(text, state.progress), state.round_id)
        waits = self._parts.upkeep.waits_for(record, tierer_connected=self._parts.tierer_connected())
        text = f"upkeep of {record.path} waits" + (f": {waits}" if waits else " for a tierer that asks")
        return Waiting(goal, UpkeepCallOutcome.WAITING, Progress(text))

    def as_it_stands(self, waiting: Waiting, reason: str) -> UpkeepResult:
        """Returns the answer of a call that ends before its request does."""
        goal, did_wait = waiting.goal, self._request.wait
        why = f"{reason}: {waiting.progress.message}" if did_wait else reason
        stats = goal.stats or UpkeepStats()
        return UpkeepResult(self._request.path, waiting.outcome, why, waiting.round_id or goal.request_id, goal.rounds, stats)

    def _attached(self, earlier: OperationRecord, since: datetime) -> Goal:
        assert earlier.table_id is not None
        assert earlier.round_id is not None
        order = UpkeepOrder()
        if self._table_records.get(earlier.table_id) is not None:
            order = self._order_of(self._parts, self._parts.cluster.table(self._request.path))
        return Goal(earlier.table_id, earlier.round_id, order, since)

    def _queue(self, goal: Goal) -> Goal:
        """Queues or joins a request, and stores the operation in the same write."""
        request = self._request
        with self._table_records.changing():
            record = self._live(goal)
            earlier = self._operations.earlier_call(request)
            if earlier is not None and earlier.round_id is not None and goal.stats is None:  # a call with the same key came first
                return replace(goal, request_id=earlier.round_id)
            ctx = self._table_records.context(request.caller)
            called = upkeep.request(ctx, record, goal.order, request.procedure, request.idempotency_key)
            operations = self._operations.started_operations(request, goal.table_id, called.round_id)
            self._table_records.put(called.change, operations=operations)
        return replace(goal, request_id=called.round_id)

    def _ended(self, goal: Goal, record: TableRecord, ended: EndedUpkeep) -> Goal | UpkeepResult:
        if ended.outcome is UpkeepOutcome.FAILED and ended.error is not None:
            raise self._failed(goal, in_context(ended.error, record.path, ended.round_id or goal.request_id))
        if ended.outcome in (UpkeepOutcome.FAILED, UpkeepOutcome.CANCELLED):
            raise self._failed(goal, self._cancelled(record, ended))
        stats = ended.stats if goal.stats is None else total_stats(goal.stats, ended.stats)
        done = replace(goal, rounds=goal.rounds + ended.rounds, stats=stats)
        outlook = None if goal.order.expiry is None else outlook_of(self._parts, record.path, goal.order.expiry)
        overtaken = _overtaken(goal, ended, outlook)
        if outlook is not None and self._goes_on(goal, ended, outlook, overtaken):
            return self._queue(replace(done, requests=goal.requests + 1, overtaken=overtaken))
        outcome = UpkeepCallOutcome(ended.outcome.value)
        if outcome is UpkeepCallOutcome.EMPTY and goal.rounds:
            outcome = UpkeepCallOutcome.SUCCEEDED
        reason = OVERTAKEN if overtaken else _reason(outcome)
        if overtaken and not stats.snapshots_expired:
            outcome = UpkeepCallOutcome.DROPPED
        kept = {} if outlook is None else _remaining_snapshots(outlook)
        result = UpkeepResult(record.path, outcome, reason, ended.round_id, done.rounds, stats, kept)
        return self._with_answer(record, result, goal.request_id)

    def _goes_on(self, goal: Goal, ended: EndedUpkeep, outlook: ExpiryOutlook, overtaken: int) -> bool:
        """Returns whether an expiry makes a further request. A call that does not wait makes none after an overtaken round; otherwise each
        repeat of the call would make one."""
        if not outlook.expirable or goal.requests >= MAX_EXPIRIES:
            return False
        is_repeated = 0 < overtaken <= MAX_OVERTAKEN and self._request.wait
        return is_repeated or ended.stats.snapshots_expired >= REMOVED_AT_ONCE

    def _with_answer(self, record: TableRecord, result: UpkeepResult, request_id: str | None = None) -> UpkeepResult:
        with self._table_records.changing():
            self._table_records.put(operations=self._operations.done(self._request, record.table_id, result, request_id))
        return result

    def _failed(self, goal: Goal, error: ErrorInfo) -> errors.LakewardError:
        with self._table_records.changing():
            self._table_records.put(operations=self._operations.done(self._request, goal.table_id, error, goal.request_id))
        return error_of(error)

    def _cancelled(self, record: TableRecord, ended: EndedUpkeep) -> ErrorInfo:
        now = self._table_records.now().wall
        text = ended.error.message if ended.error is not None else f"the upkeep of {record.path} was cancelled"
        return ErrorInfo("RoundCancelled", text, None, "Call again to request it again.", retryable=True, time=now)

    def _live(self, goal: Goal) -> TableRecord:
        return living_record(self._parts, self._request.path, goal.table_id)


def _overtaken(goal: Goal, ended: EndedUpkeep, outlook: ExpiryOutlook | None) -> int:
    """Returns how many consecutive requests of an expiry removed nothing, although some snapshots could be removed; 0 after a success."""
    is_left = outlook is not None and outlook.expirable > OWN_SNAPSHOTS
    is_overtaken = is_left and ended.outcome is UpkeepOutcome.SUCCEEDED and not ended.stats.snapshots_expired
    return goal.overtaken + 1 if is_overtaken else 0


def _remaining_snapshots(outlook: ExpiryOutlook) -> dict[str, int]:
    """Returns the present snapshots, by reason. The commit of an expiry makes the snapshot before it removable."""
    return dict(outlook.kept) | ({"until the next commit": outlook.expirable} if outlook.expirable else {})


OVERTAKEN = "another commit came first, so the latest round removed no snapshot; call it again"
"""Why an expiry left removable snapshots."""


def _reason(outcome: UpkeepCallOutcome) -> str | None:
    if outcome is UpkeepCallOutcome.EMPTY:
        return "there was nothing to do"
    if outcome is UpkeepCallOutcome.DROPPED:
        return "other commits changed the files of every rewritten bucket meanwhile; nothing was lost, and later upkeep retries"
    return None
