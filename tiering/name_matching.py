"""Compares names with text from callers: SQL's LIKE, and the existing names that are most like a wrong one. Both have bounded cost.

A LIKE pattern is matched in one pass over a name. Python's `re` would backtrack and hold the interpreter's lock meanwhile, so a pattern
such as `%%%%%x` would stop the whole service.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from difflib import get_close_matches

from tiering.errors import InvalidArgument

COMPARED_PAIRS = 250_000
"""The most pairs of characters that one search for similar names compares, some 40 ms. 400 names of 25 characters have that many."""

_LONGEST = 250
"""The number of characters of a text that are compared. No name is longer."""


class LikePattern:
    """A LIKE pattern. `%` matches any text and `_` one character. A backslash makes the next character literal.

    A match keeps one integer with one bit per number of pattern characters that can match the text read so far. Each character of the text
    updates all bits at once.
    """

    def __init__(self, pattern: str) -> None:
        """Raises InvalidArgument if a backslash precedes a character other than `%`, `_` and a backslash."""
        self._stays = 0
        """Bits of the places of a `%`. These places also stay set."""
        self._any = 0
        """Bits of the places that any character reaches."""
        self._reached_by: dict[str, int] = {}
        """Bits of the places that a certain character reaches, per character."""
        place = 1
        characters = iter(pattern)
        for character in characters:
            if character == "%":
                self._stays |= place
                continue
            place <<= 1
            if character == "_":
                self._any |= place
                continue
            literal = character if character != "\\" else _escaped(next(characters, ""), pattern)
            self._reached_by[literal] = self._reached_by.get(literal, 0) | place
        self._end = place

    def matches(self, text: str) -> bool:
        """Returns whether the pattern matches the whole text."""
        places = 1
        for character in text:
            reachable = self._any | self._reached_by.get(character, 0)
            places = ((places << 1) & reachable) | (places & self._stays)
        return bool(places & self._end)


def nearest_names(name: str, candidates: Iterable[str], most: int, cutoff: float = 0.6) -> list[str]:
    """Returns at most `most` of the candidates that are most like `name`, the most similar first.

    If there are more candidates than the limit allows, only those near `name` in the alphabet are compared: the longer `name`, the fewer.
    """
    text, ordered = name[:_LONGEST], sorted(candidates)
    compared = max(COMPARED_PAIRS // max(len(text), 1) ** 2, 1)
    start = max(min(bisect_left(ordered, text) - compared // 2, len(ordered) - compared), 0)
    return get_close_matches(text, ordered[start : start + compared], n=most, cutoff=cutoff)


def _escaped(character: str, pattern: str) -> str:
    if character not in ("%", "_", "\\"):
        raise InvalidArgument(
            f"the pattern {pattern[:60]!r} has a backslash before {character!r}",
            hint="A backslash may only stand before %, _ or another backslash.",
        )
    return character
