"""Numbers with their nouns, as sentences have them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 row`, `1,200 rows`: of nouns with a regular plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
