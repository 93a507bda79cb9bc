"""What runs statements. Another engine is one more class with these two methods, and one more `EngineKind`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class EngineKind(StrEnum):
    """`--engine`."""

    SPARK = "spark"
    DUCKDB = "duckdb"


@dataclass(frozen=True)
class Result:
    """Rows by position, as plain Python values; times with their zone. No columns: the statement has no rows to show."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Engine(Protocol):
    """Runs one statement after the other in one session."""

    def execute(self, statement: str) -> Result:
        """All rows. Raises StatementFailed; KeyboardInterrupt ends the waiting, and the work as far as the engine can."""
        ...

    def close(self) -> None:
        """Ends the session."""
        ...
