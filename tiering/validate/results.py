"""What a validation says: one row a check (SYS.md, `validation_results`), as plain values that travel as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

ENGINE = "duckdb"
DEFAULT_MEMORY_LIMIT = "1GB"


class Level(StrEnum):
    """How much is proved; each level has those before it."""

    COUNTS = "counts"
    OFFSETS = "offsets"
    ROWS = "rows"

    @property
    def depth(self) -> int:
        return list(Level).index(self)


@dataclass(frozen=True)
class CheckResult:
    """One check of one table. `ok` None = it could not be told, and why is in `details`.

    `scope`: `table`, or a bucket as `3` or `partition/3`. A difference names the first bucket, offset and key in `details`.
    """

    validated_at: datetime
    database_name: str
    table_name: str
    lake_snapshot_id: int | None
    level: str
    check: str
    scope: str
    expected: str | None
    actual: str | None
    ok: bool | None
    details: str | None
    duration_ms: int
    engine: str = ENGINE

    def to_plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**asdict(self), "validated_at": self.validated_at.isoformat()}

    @staticmethod
    def from_plain(values: Mapping[str, Any]) -> CheckResult:
        """The inverse."""
        return CheckResult(**{**values, "validated_at": datetime.fromisoformat(values["validated_at"])})
