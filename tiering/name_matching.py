"""Names beside texts that callers write: SQL's LIKE, and the known names that are nearest to a wrong one. The work of both is bounded.

A LIKE pattern is matched in one pass over a name. Python's `re` backtracks, and holds the interpreter's lock meanwhile: a pattern such as
`%%%%%x` would stop the whole service.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from difflib import get_close_matches

from tiering.errors import InvalidArgument

COMPARED_PAIRS = 250_000
"""Pairs of characters that one search for near names compares at most: some 40 ms. 400 names of 25 characters have so many."""

_LONGEST = 250
"""Characters of a text that are compared: no name is longer."""


class LikePattern:
    """A pattern: `%` is any text, `_` is one character, and a backslash takes the next character for itself.

    A match keeps one bit for each number of pattern characters that can stand for the text so far, in one integer. Each character of the
    text moves all of them at once.
    """

    def __init__(self, pattern: str) -> None:
        """Raises InvalidArgument for a backslash before another character than `%`, `_` and a backslash."""
        self._stays = 0
        """Bits of the places where a `%` stands: they also stay where they are."""
        self._any = 0
        """Bits of the places that any character reaches."""
        self._reached_by: dict[str, int] = {}
        """Bits of the places that a certain character reaches."""
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
        """Whether the pattern matches the whole text."""
        places = 1
        for character in text:
            reachable = self._any | self._reached_by.get(character, 0)
            places = ((places << 1) & reachable) | (places & self._stays)
        return bool(places & self._end)


def nearest_names(name: str, known: Iterable[str], most: int, cutoff: float = 0.6) -> list[str]:
    """The known names that are most like `name`, the nearest first; at most `most`.

    Of more names than can be compared, those around it in the alphabet are: the longer it is, the fewer.
    """
    text, ordered = name[:_LONGEST], sorted(known)
    compared = max(COMPARED_PAIRS // max(len(text), 1) ** 2, 1)
    start = max(min(bisect_left(ordered, text) - compared // 2, len(ordered) - compared), 0)
    return get_close_matches(text, ordered[start : start + compared], n=most, cutoff=cutoff)


def _escaped(character: str, pattern: str) -> str:
    if character not in ("%", "_", "\\"):
        raise InvalidArgument(
            f"the pattern {pattern[:60]!r} has a backslash before {character!r}",
            hint="A backslash stands before %, _ or a backslash.",
        )
    return character
