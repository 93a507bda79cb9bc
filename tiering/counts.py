"""Numbers with their nouns, for messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Returns the number with its noun, such as `1 row` or `1,200 rows`. The noun must have a regular plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
