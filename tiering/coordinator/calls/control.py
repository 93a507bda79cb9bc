"""`CALL sys.tier_table` (DESIGN 5): brings the lake to the end offsets of the call.

The goal is offsets, not a round: a call is done when the lake passes the base check now, for the same table id, with a
marker that reached them. It waits without a thread; what it looks at runs in pools of their own, so that waiting calls
never hold up a read, nor those that wait for a lake the ones that only change what the coordinator does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

from tiering.coordinator.calls.controls import Controls
from tiering.coordinator.calls.lease_calls import LeaseCall, LeaseCalls, LeaseResult
from tiering.coordinator.calls.mutations import (
    CancelResult,
    CancelTiering,
    PauseResult,
    PauseTiering,
    ResetErrors,
    ResetResult,
    ResumeTiering,
)
from tiering.coordinator.calls.reconcile_lake import Reconciler
from tiering.coordinator.calls.skip_record import RecordSkips, SkipRecord, SkipRecordResult
from tiering.coordinator.calls.sweep_lake import Sweeper
from tiering.coordinator.calls.tier_table_rows import Goal
from tiering.coordinator.calls.tier_table_steps import CallSteps, Ended, Waiting
from tiering.coordinator.calls.validate_table import ValidateTable, Validations
from tiering.coordinator.interface import (
    Progress,
    ReconcileLake,
    ReconcileResult,
    RetryResult,
    RetryTiering,
    SweepLake,
    SweepResult,
    TierTable,
    TierTableResult,
)
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.memory.wake_ups import Subscription
from tiering.errors import InvalidArgument
from tiering.library_guards.panics import contained
from tiering.validate.results import CheckResult

Result = TypeVar("Result")


class Calls:
    """`CoordinatorControl` (see `api`)."""

    def __init__(
        self,
        table_records: TableRecords,
        steps: CallSteps,
        controls: Controls,
        reconciler: Reconciler,
        sweeper: Sweeper,
        leases: LeaseCalls,
        skips: RecordSkips,
        validations: Validations,
        tierer_connected: Callable[[], bool],
    ) -> None:
        self._table_records = table_records
        self._reconciler = reconciler
        self._sweeper = sweeper
        self._leases = leases
        self._skips = skips
        self._validations = validations
        self._steps = steps
        self._controls = controls
        self._tierer_connected = tierer_connected
        # By what they may wait for: a lake or a cluster that hangs must keep nobody from pausing a table.
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="call")
        self._looks = ThreadPoolExecutor(8, thread_name_prefix="tier-table")
        self._repairs = ThreadPoolExecutor(4, thread_name_prefix="repair")
        self._lease_calls = ThreadPoolExecutor(2, thread_name_prefix="lease-call")
        self._closing = False

    async def tier_table(self, call: TierTable) -> AsyncGenerator[Progress | TierTableResult, None]:
        """See `CoordinatorControl.tier_table`."""
        if call.timeout_ms < 0:
            raise InvalidArgument(f"timeout_ms must not be negative, but is {call.timeout_ms}")
        goal = await self._look(partial(self._steps.begin, call))
        if isinstance(goal, TierTableResult):
            yield goal
            return
        async for step in self._follow(call, goal):
            yield step

    async def reconcile_lake(self, call: ReconcileLake) -> ReconcileResult:
        """See `CoordinatorControl.reconcile_lake`."""
        return await _in(self._repairs, partial(self._reconciler.reconcile, call))

    async def retry_tiering(self, call: RetryTiering) -> RetryResult:
        """See `CoordinatorControl.retry_tiering`."""
        return await self._run(partial(self._controls.retry, call))

    def validate_table(self, call: ValidateTable) -> AsyncGenerator[str | CheckResult, None]:
        """See `CoordinatorControl.validate_table`."""
        return self._validations.run(call)

    async def lease(self, call: LeaseCall) -> LeaseResult:
        """See `CoordinatorControl.lease`."""
        return await _in(self._lease_calls, partial(self._leases.run, call))

    async def knows(self, idempotency_key: str) -> bool:
        """See `CoordinatorControl.knows`."""
        return await self._run(lambda: self._table_records.store.operation(idempotency_key) is not None)

    async def pause_tiering(self, call: PauseTiering) -> PauseResult:
        """See `CoordinatorControl.pause_tiering`."""
        return await self._run(partial(self._controls.pause, call))

    async def resume_tiering(self, call: ResumeTiering) -> PauseResult:
        """See `CoordinatorControl.resume_tiering`."""
        return await self._run(partial(self._controls.resume, call))

    async def cancel_tiering(self, call: CancelTiering) -> CancelResult:
        """See `CoordinatorControl.cancel_tiering`."""
        return await self._run(partial(self._controls.cancel, call))

    async def reset_errors(self, call: ResetErrors) -> ResetResult:
        """See `CoordinatorControl.reset_errors`."""
        return await self._run(partial(self._controls.reset_errors, call))

    async def skip_record(self, call: SkipRecord) -> SkipRecordResult:
        """See `CoordinatorControl.skip_record`."""
        return await _in(self._repairs, partial(self._skips.skip, call))

    async def sweep_lake(self, call: SweepLake) -> Sequence[SweepResult]:
        """See `CoordinatorControl.sweep_lake`."""
        if call.older_than_ms < 0:
            raise InvalidArgument(f"older_than must not be negative, but is {call.older_than_ms} ms")
        return await _in(self._repairs, partial(self._sweeper.sweep, call))

    def end_waits(self) -> None:
        """Each waiting call answers with how its table stands."""
        self._closing = True
        self._table_records.wake_ups.notify()

    def close(self) -> None:
        """No call can be made any more."""
        for pool in (self._pool, self._looks, self._repairs, self._lease_calls):
            pool.shutdown(wait=False, cancel_futures=False)
        self._validations.close()

    async def _follow(self, call: TierTable, goal: Goal) -> AsyncGenerator[Progress | TierTableResult, None]:
        latest: Progress | None = None
        with self._table_records.wake_ups.subscribe() as changes:
            while True:
                before = self._signature(goal)
                seen = await self._look(partial(self._steps.look, call, goal))
                if isinstance(seen, Ended):
                    yield seen.result
                    return
                goal = seen.goal
                if seen.progress != latest:
                    latest = seen.progress
                    yield latest
                if not call.wait or (why := self._why_it_ends(call, seen)):
                    if call.wait:
                        yield replace(latest, message=f"{why}: {latest.message}")
                    yield await self._look(partial(self._steps.as_it_stands, goal))
                    return
                await self._until_worth_looking(changes, call, seen, before)

    async def _until_worth_looking(self, changes: Subscription, call: TierTable, seen: Waiting, before: object) -> None:
        """Ticks wake every waiting call: look again only if something about this one changed."""
        while before == self._signature(seen.goal) and not self._why_it_ends(call, seen):
            if seen.look_at is not None and self._table_records.now().passed(seen.look_at):
                return
            await changes.wait()

    def _why_it_ends(self, call: TierTable, seen: Waiting) -> str | None:
        """Why the wait is over before the goal is reached, for the caller; None while it goes on."""
        now, options = self._table_records.now(), self._table_records.options
        waited = (now.steady - seen.goal.started_since).total_seconds() * 1000
        if self._closing:
            return "the service stops"
        if waited >= call.timeout_ms:
            return f"not done within {call.timeout_ms} ms"
        if waited >= options.tierer_grace_ms and not self._tierer_connected():
            return "no tierer is connected"
        return None

    def _signature(self, goal: Goal) -> object:
        record = self._table_records.get(goal.table_id)
        if record is None or self._table_records.fenced is not None:
            return None
        return record.state, record.tiering_epoch, record.round, record.call, record.pause, record.lake.snapshot_id

    async def _run(self, step: Callable[[], Result]) -> Result:
        return await _in(self._pool, step)

    async def _look(self, step: Callable[[], Result]) -> Result:
        return await _in(self._looks, step)


async def _in(pool: ThreadPoolExecutor, step: Callable[[], Result]) -> Result:
    return await asyncio.get_running_loop().run_in_executor(pool, contained(step))
