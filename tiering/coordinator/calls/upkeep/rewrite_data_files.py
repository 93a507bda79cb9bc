"""`CALL sys.rewrite_data_files`: merges small data files and applies deletes, in all partitions or in some."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from tiering.coordinator.calls.effects import CallParts, effect_with_progress
from tiering.coordinator.calls.upkeep.partition_condition import matching_partitions
from tiering.coordinator.calls.upkeep.upkeep_call import UpkeepCall, perform_upkeep
from tiering.model.call_results import Progress, UpkeepResult
from tiering.model.tables import TableInfo
from tiering.model.upkeep import UpkeepOrder


@dataclass(frozen=True)
class RewriteDataFiles(UpkeepCall):
    """Arguments of the call (docs/reference.md). `where` is an SQL condition over partition columns; None for all partitions."""

    procedure = "rewrite_data_files"
    where: str | None = None
    full: bool = False


@effect_with_progress(RewriteDataFiles)
async def rewrite_data_files(parts: CallParts, request: RewriteDataFiles) -> AsyncGenerator[Progress | UpkeepResult, None]:
    """Rewrites the files. Raises InvalidArgument for a condition that is not over partition columns, and like `perform_upkeep`."""

    def order_of(parts: CallParts, info: TableInfo) -> UpkeepOrder:
        if request.where is None:
            return UpkeepOrder(full=request.full)
        names = [partition.partition_name for partition in parts.cluster.partitions(info)] if info.partition_keys else []
        return UpkeepOrder(full=request.full, partitions=matching_partitions(request.where, info, names))

    async for step in perform_upkeep(parts, request, order_of):
        yield step
