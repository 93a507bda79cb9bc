"""sys.tierers: the tierers, as their heartbeats describe them. Without a running coordinator none are known."""

from __future__ import annotations

from collections.abc import Sequence

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import OPERATE_ON_SERVICE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.tierers import TiererStatus


@system_table(
    "tierers",
    TiererStatus,
    requires=OPERATE_ON_SERVICE,
    comment="The tierers. A tierer that is lost or has stopped is shown for a day.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Sequence[TiererStatus]:
    return view.tierers()
