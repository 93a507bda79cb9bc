"""sys.lake_tiering_status: the tiering status of each lake table, and the reason for its wait.

Its columns are the fields of `TableStatus`.
"""

from __future__ import annotations

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import DESCRIBE_EACH_TABLE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.reading.matching import Columns
from tiering.model.status import TableStatus


@system_table(
    "lake_tiering_status",
    TableStatus,
    requires=DESCRIBE_EACH_TABLE,
    requires_note="`next_action` is a statement if the caller may run it, and otherwise names the privilege to ask for.",
    comment="The tiering status of each lake table.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Columns:
    return view.status_columns(scan.names)
