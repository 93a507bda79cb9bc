"""sys.validation_results: the results of validations, the newest first."""

from __future__ import annotations

from collections.abc import Iterator

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import DESCRIBE_EACH_TABLE, SELECT_ON_TABLE
from tiering.coordinator.interface import CoordinatorView
from tiering.procedures.validate_table import CheckResult


@system_table(
    "validation_results",
    CheckResult,
    requires=DESCRIBE_EACH_TABLE,
    further=((SELECT_ON_TABLE, "`details`"),),
    comment="The results of validations, the newest first.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[CheckResult]:
    database_name, table_name = scan.equals("database_name"), scan.equals("table_name")
    for result in view.validations():
        if database_name in (None, result.database_name) and table_name in (None, result.table_name):
            yield result
