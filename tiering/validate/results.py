"""What a validation is asked for, and what it says: one row a check (docs/reference.md, `validation_results`)."""

from __future__ import annotations

from enum import StrEnum

from tiering.model.call_results import CheckResult as CheckResult  # a validation's results are known from here

DEFAULT_MEMORY_LIMIT = "1GB"


class Level(StrEnum):
    """How much is proved; each level has those before it."""

    COUNTS = "counts"
    OFFSETS = "offsets"
    ROWS = "rows"

    @property
    def depth(self) -> int:
        return list(Level).index(self)
