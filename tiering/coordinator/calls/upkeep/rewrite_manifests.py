"""`CALL sys.rewrite_manifests`: merges the manifests of a lake table."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from tiering.coordinator.calls.effects import CallParts, effect_with_progress
from tiering.coordinator.calls.upkeep.upkeep_call import UpkeepCall, perform_upkeep
from tiering.model.call_results import Progress, UpkeepResult
from tiering.model.tables import TableInfo
from tiering.model.upkeep import UpkeepOrder


@dataclass(frozen=True)
class RewriteManifests(UpkeepCall):
    """Arguments of the call (docs/reference.md)."""

    procedure = "rewrite_manifests"


@effect_with_progress(RewriteManifests)
async def rewrite_manifests(parts: CallParts, request: RewriteManifests) -> AsyncGenerator[Progress | UpkeepResult, None]:
    """Merges the manifests. Raises like `perform_upkeep`."""

    def order_of(parts: CallParts, info: TableInfo) -> UpkeepOrder:
        return UpkeepOrder(rewrite=False, manifests=True)

    async for step in perform_upkeep(parts, request, order_of):
        yield step
