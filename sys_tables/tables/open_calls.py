"""sys.open_calls: the CALLs that the service executes now. A CALL whose caller has disconnected is not among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import EVERY_CALLER, OPERATE_ON_SERVICE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import column


@dataclass(frozen=True)
class OpenCallRow:
    """One CALL that has not ended."""

    call_id: int = column("Number of the call, counted from 1 since the service started.")
    procedure_name: str = column("Name of the called procedure.")
    caller: str = column("The caller, as the client gave it.")
    idempotency_key: str | None = column("The key that names the operation; NULL without one.")
    started_time: datetime = column("When the call reached the service.")
    running_ms: int = column("Duration so far, in milliseconds.")


@system_table(
    "open_calls",
    OpenCallRow,
    requires=EVERY_CALLER,
    requires_note="The table shows the caller's own CALLs.",
    further=((OPERATE_ON_SERVICE, "CALLs of other callers"),),
    comment="CALLs that the service executes now, the oldest first.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[OpenCallRow]:
    for call in view.open_calls():
        running_ms = max(0, (view.now - call.started_time) // timedelta(milliseconds=1))
        yield OpenCallRow(call.call_id, call.procedure, call.caller, call.idempotency_key, call.started_time, running_ms)
