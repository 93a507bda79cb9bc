"""`CALL sys.validate_table`: proves with DuckDB that a lake table equals its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from tiering.access.privileges import Privilege
from tiering.access.requirements import PrivilegeTarget, Requirement
from tiering.model.declare import column, parameter
from tiering.model.tables import TablePath
from tiering.procedures.base import VALIDATION_SECONDS, CallRequest


@dataclass(frozen=True)
class CheckResult:
    """One check of one table, which is also a row of `sys.validation_results`."""

    validated_at: datetime = column("When the validation began.")
    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    lake_snapshot_id: int | None = column("The lake snapshot that was checked.")
    level: str = column("counts, offsets or rows.")
    check: str = column("base, files, log, rows, offsets, keys or values.")
    scope: str = column("table, or the bucket: 3, or partition/3.")
    expected: str | None = column("The value in the log or the marker.")
    actual: str | None = column("The value in the lake.")
    ok: bool | None = column("Whether the two sides agree. NULL = unknown, for the reason in details.")
    details: str | None = column("The first difference: bucket, offset and key or columns; NULL for a caller without SELECT.")
    duration_ms: int = column("How long the check took, in milliseconds.")
    engine: str = column("The engine that compared them.", default="duckdb")

    def to_plain(self) -> dict[str, Any]:
        """Returns the result in the form that JSON has."""
        return {**asdict(self), "validated_at": self.validated_at.isoformat()}

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> CheckResult:
        """Returns the result from the form that `to_plain` returns."""
        return CheckResult(**{**values, "validated_at": datetime.fromisoformat(values["validated_at"])})


@dataclass(frozen=True)
class ValidateTable(CallRequest[tuple[CheckResult, ...]]):
    """The table to validate. `level` is the name of a `Level` in any case. `snapshot_id` None: the newest lake snapshot."""

    procedure = "validate_table"
    comment = "Proves with DuckDB that a lake table equals its log."
    requirement = Requirement(Privilege.SELECT, PrivilegeTarget.TABLE, audited=True)
    answer_seconds = VALIDATION_SECONDS
    path: TablePath = parameter("The table: db.t or cat.db.t.", name="table")
    level: str = parameter("counts: rows per bucket. offsets: each offset once. rows: all values too.", default="offsets")
    snapshot_id: int | None = parameter("A lake snapshot; the newest if not given.", default=None)
