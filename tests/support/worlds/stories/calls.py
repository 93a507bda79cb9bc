"""Steps of a story: every CALL, with any arguments."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from support.worlds.stories.parts import StoryParts, run_call
from tiering.model.tables import TablePath
from tiering.procedures.cancel_tiering import CancelTiering
from tiering.procedures.pause_tiering import PauseTiering
from tiering.procedures.reconcile_lake import ReconcileLake
from tiering.procedures.reset_errors import ResetErrors
from tiering.procedures.resume_tiering import ResumeTiering
from tiering.procedures.retry_tiering import RetryTiering
from tiering.procedures.skip_record import SkipRecord
from tiering.procedures.sweep_lake import SweepLake
from tiering.procedures.tier_table import TierTable


class CallSteps(StoryParts):
    """CALLs of operators."""

    def call(self) -> str | None:
        rng, path = self.rng, self.pick().info.path
        key = rng.choice((None, None, f"key-{rng.randrange(4)}"))
        options: dict[str, Any] = {"caller": "ann", "dry_run": rng.random() < 0.2, "idempotency_key": key}
        control, now = self.world.coordinator.control, self.world.clock.now()
        until = rng.choice((None, now + timedelta(seconds=90), now + timedelta(days=4_000), now - timedelta(days=1)))
        rounds = [record.round.round_id for record in self.world.coordinator.table_records.live() if record.round] or ["none"]
        calls: list[Callable[[], Any]] = [
            lambda: control.perform(PauseTiering(path, "why", until, **options)),
            lambda: control.perform(ResumeTiering(path, None, **options)),
            lambda: control.perform(RetryTiering(path, **options)),
            lambda: control.perform(ResetErrors(path, **options)),
            lambda: control.perform(CancelTiering(rng.choice(rounds), "why", **options)),
            lambda: self._tier_call(TierTable(path, wait=False, **options)),
            lambda: self.reconcile(path, rng.choice(("accept", "adopt", "retier")), options["dry_run"]),
            lambda: control.perform(SkipRecord(path, rng.randrange(3), rng.randrange(9), rng.choice((None, "eu")), None, **options)),
            lambda: control.perform(
                SweepLake(rng.choice((None, path)), rng.choice((3_600_000, 86_400_000)), options["dry_run"], caller="ann")
            ),
        ]
        return str(run_call(rng.choice(calls)()))

    async def _tier_call(self, call: TierTable) -> object:
        return [step async for step in self.world.coordinator.control.perform_with_progress(call)][-1]

    async def reconcile(self, path: TablePath, action: str, dry_run: bool = False) -> object:
        result = await self.world.coordinator.control.perform(ReconcileLake(path, action, caller="ann", dry_run=dry_run))
        if result.outcome == "reconciled" and result.records_left_out != 0 and path.table_name in self.models:
            self.models[path.table_name].left_out = True
        return result
