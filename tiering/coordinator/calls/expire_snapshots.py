"""`CALL sys.expire_snapshots`: removes old snapshots of a lake table now."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.call_support.upkeep_call import perform_upkeep
from tiering.model.tables import TableInfo
from tiering.model.upkeep import ExpiryOrder, UpkeepOrder
from tiering.procedures.base import Progress, UpkeepResult
from tiering.procedures.expire_snapshots import ExpireSnapshots


async def expire_snapshots(parts: CallParts, request: ExpireSnapshots) -> AsyncGenerator[Progress | UpkeepResult, None]:
    """Expires the snapshots. Raises InvalidArgument for a time in the future and for a number below 1, and the errors of
    `perform_upkeep`."""

    def order_of(parts: CallParts, info: TableInfo) -> UpkeepOrder:
        return UpkeepOrder(rewrite=False, expiry=ExpiryOrder(request.older_than, request.retain_last))

    _check(request, parts.table_records.now().wall)
    async for step in perform_upkeep(parts, request, order_of):
        yield step


def _check(request: ExpireSnapshots, now: datetime) -> None:
    if request.older_than is not None and request.older_than > now:
        raise errors.InvalidArgument(
            f"the argument 'older_than' is {request.older_than.isoformat()}, which is in the future: every snapshot is older",
            hint="Give a time in the past. With retain_last => 1, all older snapshots are removed that nothing else keeps.",
        )
    if request.retain_last is not None and request.retain_last < 1:
        raise errors.InvalidArgument(
            f"the argument 'retain_last' is {request.retain_last}: the newest snapshot always stays", hint="Give a number of at least 1."
        )
