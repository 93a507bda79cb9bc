"""`CALL sys.rewrite_data_files`: merges small data files and applies deletes, in all partitions or in some."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from tiering.coordinator.call_support.partition_condition import matching_partitions
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.upkeep_call import perform_upkeep
from tiering.model.tables import TableInfo
from tiering.model.upkeep import UpkeepOrder
from tiering.procedures.base import Progress, UpkeepResult
from tiering.procedures.rewrite_data_files import RewriteDataFiles


async def rewrite_data_files(parts: CallParts, request: RewriteDataFiles) -> AsyncGenerator[Progress | UpkeepResult, None]:
    """Rewrites the files. Raises InvalidArgument for a condition that is not over partition columns, and like `perform_upkeep`."""

    def order_of(parts: CallParts, info: TableInfo) -> UpkeepOrder:
        if request.where is None:
            return UpkeepOrder(full=request.full)
        names = [partition.partition_name for partition in parts.cluster.partitions(info)] if info.partition_keys else []
        return UpkeepOrder(full=request.full, partitions=matching_partitions(request.where, info, names))

    async for step in perform_upkeep(parts, request, order_of):
        yield step
