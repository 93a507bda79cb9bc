"""What runs statements. Another engine is one more class with these two methods, and one more `EngineKind`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from tiering.errors import LakewardError, StatementFailed


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


@contextmanager
def errors_of_statements() -> Iterator[None]:
    """Raises errors of our tree as StatementFailed, with their class in the message; a StatementFailed passes as it is."""
    try:
        yield
    except StatementFailed:
        raise
    except LakewardError as error:
        raise StatementFailed(f"[{error.error_class}] {error.message}", hint=error.hint) from error
