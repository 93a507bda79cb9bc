"""sys.validation_results: what validations found, the newest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.columns import column
from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import DESCRIBE_EACH_TABLE, SELECT_ON_TABLE
from tiering.coordinator.interface import CheckResult, CoordinatorView


@dataclass(frozen=True)
class ValidationResultRow:
    """One check of one table."""

    validated_at: datetime = column("When the validation began.")
    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    lake_snapshot_id: int | None = column("The lake snapshot that was looked at.")
    level: str = column("counts, offsets or rows.")
    check: str = column("base, files, log, rows, offsets, keys or values.")
    scope: str = column("table, or the bucket: 3, or partition/3.")
    expected: str | None = column("What the log or the marker says.")
    actual: str | None = column("What the lake has.")
    ok: bool | None = column("Whether they agree; NULL if it cannot be told, which details explains.")
    details: str | None = column("The first difference: bucket, offset and key or columns; NULL for a caller without SELECT.")
    duration_ms: int = column("How long the check took, in milliseconds.")
    engine: str = column("What compared them.")


def row_of(result: CheckResult) -> ValidationResultRow:
    """A result as its row."""
    return ValidationResultRow(**vars(result))


@system_table(
    "validation_results",
    ValidationResultRow,
    requires=DESCRIBE_EACH_TABLE,
    further=((SELECT_ON_TABLE, "`details`"),),
    comment="What validations found, the newest first.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[ValidationResultRow]:
    database_name, table_name = scan.equals("database_name"), scan.equals("table_name")
    for result in view.validations():
        if database_name in (None, result.database_name) and table_name in (None, result.table_name):
            yield row_of(result)
