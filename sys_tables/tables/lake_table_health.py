"""sys.lake_table_health: the read cost of each lake table, from the coordinator's latest observation.

A scan reads no lake: the coordinator observes a lake table in the background, after its snapshot changed. Its columns are the fields of
`TableHealth`.
"""

from __future__ import annotations

from collections.abc import Iterator

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import DESCRIBE_EACH_TABLE
from tiering.coordinator.interface import CoordinatorView
from tiering.lake.health.table_health import TableHealth


@system_table(
    "lake_table_health",
    TableHealth,
    requires=DESCRIBE_EACH_TABLE,
    comment="Health of each lake table for readers: files, deletes, snapshots and metadata.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[TableHealth]:
    return view.lake_health(scan.equals("database_name"), scan.equals("table_name"), scan.names)
