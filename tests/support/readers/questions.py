"""The questions to every reader of a lake table, and the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol

import pyarrow as pa


@dataclass(frozen=True)
class Condition:
    """`column = value`."""

    column: str
    value: int | str | date

    def to_json(self) -> dict[str, str]:
        return {"column": self.column, "kind": type(self.value).__name__, "text": str(self.value)}


@dataclass(frozen=True)
class Question:
    """Some columns of a lake table `database.table`: of all rows, or of those that meet the condition."""

    table: str
    columns: tuple[str, ...]
    snapshot_id: int | None = None
    """Snapshot to read; None = the newest one."""
    condition: Condition | None = None

    def to_json(self) -> dict[str, Any]:
        """For a reader in another process."""
        condition = None if self.condition is None else self.condition.to_json()
        return {"table": self.table, "columns": list(self.columns), "snapshot_id": self.snapshot_id, "condition": condition}


Answer = pa.Table | str
"""The rows, in any order; or the type and the text of the error that the reader raised."""


class Reader(Protocol):
    """One engine that reads lake tables."""

    @property
    def name(self) -> str:
        """By which tests know it."""
        ...

    @property
    def title(self) -> str:
        """With its version, for the page."""
        ...

    def answers(self, questions: Sequence[Question]) -> Sequence[Answer]:
        """An answer to each question, in their order."""
        ...


def error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
