"""The levels and results of a validation: one row per check (docs/reference.md, `validation_results`)."""

from __future__ import annotations

from enum import StrEnum

from tiering.errors import InvalidArgument

DEFAULT_MEMORY_LIMIT = "1GB"


class Level(StrEnum):
    """How much is proved. Each level includes the levels before it."""

    COUNTS = "counts"
    OFFSETS = "offsets"
    ROWS = "rows"

    @property
    def depth(self) -> int:
        return list(Level).index(self)


def level_of(text: str) -> Level:
    """Returns the level with this name, in any case. Raises InvalidArgument."""
    try:
        return Level(text.lower())
    except ValueError as error:
        levels = ", ".join(Level)
        raise InvalidArgument(f"{text!r} is not a level of validation", hint=f"Levels are {levels}.") from error
