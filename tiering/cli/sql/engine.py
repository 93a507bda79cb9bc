"""The interface of engines that run statements. A new engine is a class with these two methods and an `EngineKind`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from tiering.errors import LakewardError, StatementFailed


class EngineKind(StrEnum):
    """The values of `--engine`."""

    SPARK = "spark"
    DUCKDB = "duckdb"


@dataclass(frozen=True)
class Result:
    """The rows of a statement: plain Python values in the order of `columns`, times with a zone. No columns: there is nothing to show."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Engine(Protocol):
    """A session that runs one statement after the other."""

    def execute(self, statement: str) -> Result:
        """Runs a statement and returns all rows. Raises StatementFailed.

        KeyboardInterrupt ends the wait, and the work of the engine if possible.
        """

    def close(self) -> None:
        """Ends the session."""


@contextmanager
def errors_of_statements() -> Iterator[None]:
    """Converts Lakeward's errors to StatementFailed, with their class in the message. A StatementFailed stays unchanged."""
    try:
        yield
    except StatementFailed:
        raise
    except LakewardError as error:
        raise StatementFailed(f"[{error.error_class}] {error.message}", hint=error.hint) from error
