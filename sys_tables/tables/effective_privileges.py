"""sys.effective_privileges: what the caller may do on which table; for ADMIN, also what other users may do.

The rows name only tables that the caller may describe, also in the rows of other users.
"""

from __future__ import annotations

from collections.abc import Iterator

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import ADMIN_ON_SERVICE, DESCRIBE_EACH_TABLE
from tiering.coordinator.interface import CoordinatorView, EffectivePrivileges


@system_table(
    "effective_privileges",
    EffectivePrivileges,
    requires=DESCRIBE_EACH_TABLE,
    further=((ADMIN_ON_SERVICE, "rows of other users"),),
    comment="What the caller may do on each table, on databases and on the service. For ADMIN, also what other known users may do.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[EffectivePrivileges]:
    yield from view.effective_privileges(scan.equals("principal"), scan.equals("database_name"), scan.equals("table_name"))
