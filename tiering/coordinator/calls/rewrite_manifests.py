"""`CALL sys.rewrite_manifests`: merges the manifests of a lake table."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.upkeep_call import perform_upkeep
from tiering.model.tables import TableInfo
from tiering.model.upkeep import UpkeepOrder
from tiering.procedures.base import Progress, UpkeepResult
from tiering.procedures.rewrite_manifests import RewriteManifests


async def rewrite_manifests(parts: CallParts, request: RewriteManifests) -> AsyncGenerator[Progress | UpkeepResult, None]:
    """Merges the manifests. Raises like `perform_upkeep`."""

    def order_of(parts: CallParts, info: TableInfo) -> UpkeepOrder:
        return UpkeepOrder(rewrite=False, manifests=True)

    async for step in perform_upkeep(parts, request, order_of):
        yield step
