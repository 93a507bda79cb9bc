"""The levels and results of a validation: one row per check (docs/reference.md, `validation_results`)."""

from __future__ import annotations

from enum import StrEnum

from tiering.model.call_results import CheckResult as CheckResult  # the name that importers use

DEFAULT_MEMORY_LIMIT = "1GB"


class Level(StrEnum):
    """How much is proved. Each level includes the levels before it."""

    COUNTS = "counts"
    OFFSETS = "offsets"
    ROWS = "rows"

    @property
    def depth(self) -> int:
        return list(Level).index(self)
