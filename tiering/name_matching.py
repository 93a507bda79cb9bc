"""Compares names with text from users: patterns with wildcards, and the existing names that are most like a wrong one.

Both have bounded cost. Many patterns are matched in one pass over a name. Python's `re` would backtrack and hold the interpreter's lock
meanwhile, so a pattern such as `%%%%%x` would stop the whole service.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from enum import Enum, auto

from tiering.errors import InvalidArgument

COMPARED_PAIRS = 250_000
"""The most pairs of characters that one search for similar names compares, some 40 ms. 400 names of 25 characters have that many."""

_LONGEST = 250
"""The number of characters of a text that are compared. No name is longer."""


class Wildcard(Enum):
    """A part of a pattern that stands for other characters."""

    TEXT = auto()
    CHARACTER = auto()


_WILDCARDS = {"%": Wildcard.TEXT, "_": Wildcard.CHARACTER}
"""The wildcards of LIKE."""

Pattern = Sequence[str | Wildcard]
"""The parts of a pattern in their order: literal texts and wildcards."""


class NamePatterns:
    """Matches whole texts against patterns, all in one pass.

    A match keeps one integer. It has one bit per pattern and number of its characters that can match the text read so far. Each character
    of the text updates all bits at once.
    """

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        starts: list[int] = []
        stays: list[int] = []
        any_character: list[int] = []
        reached_by: dict[str, list[int]] = {}
        self._ends: dict[int, int] = {}
        """The number of a pattern by its last place."""
        place = 0
        for number, pattern in enumerate(patterns):
            starts.append(place)
            for part in pattern:
                if part is Wildcard.TEXT:
                    stays.append(place)
                    continue
                for character in [None] if part is Wildcard.CHARACTER else part:
                    place += 1
                    (any_character if character is None else reached_by.setdefault(character, [])).append(place)
            self._ends[place] = number
            place += 1
        self._start, self._stays, self._any, self._end = map(_bits, (starts, stays, any_character, self._ends))
        """Places where a match begins, places before a wildcard for any text, places that any character reaches, and last places."""
        self._reached_by = {character: _bits(places) | self._any for character, places in reached_by.items()}

    def matching(self, text: str) -> list[int]:
        """Returns the numbers of the patterns that match the whole text."""
        places, stays, reached_by, any_character = self._start, self._stays, self._reached_by, self._any
        for character in text:
            places = ((places << 1) & reached_by.get(character, any_character)) | (places & stays)
        return [self._ends[place] for place in _places(places & self._end)]


class LikePattern:
    """A LIKE pattern. `%` matches any text and `_` one character. A backslash makes the next character literal."""

    def __init__(self, pattern: str) -> None:
        """Raises InvalidArgument if a backslash precedes a character other than `%`, `_` and a backslash."""
        parts = list(_parts(pattern))
        self._shortest = len(parts) - parts.count(Wildcard.TEXT)
        self._patterns = NamePatterns([parts])

    def matches(self, text: str) -> bool:
        """Returns whether the pattern matches the whole text."""
        return len(text) >= self._shortest and bool(self._patterns.matching(text))


def with_text_between(texts: Sequence[str]) -> Pattern:
    """Returns the pattern with a wildcard for any text between two literal texts."""
    return [part for text in texts for part in (Wildcard.TEXT, text)][1:]


def nearest_names(name: str, candidates: Iterable[str], most: int, cutoff: float = 0.6) -> list[str]:
    """Returns at most `most` of the candidates that are most like `name`, the most similar first.

    If there are more candidates than the limit allows, only those near `name` in the alphabet are compared: the longer `name`, the fewer.
    """
    text, ordered = name[:_LONGEST], sorted(candidates)
    compared = max(COMPARED_PAIRS // max(len(text), 1) ** 2, 1)
    start = max(min(bisect_left(ordered, text) - compared // 2, len(ordered) - compared), 0)
    return get_close_matches(text, ordered[start : start + compared], n=most, cutoff=cutoff)


def _parts(pattern: str) -> Iterator[str | Wildcard]:
    """Yields each character of a LIKE pattern, or its wildcard."""
    characters = iter(pattern)
    for character in characters:
        if character in _WILDCARDS:
            yield _WILDCARDS[character]
        elif character != "\\":
            yield character
        elif (escaped := next(characters, "")) in (*_WILDCARDS, "\\"):
            yield escaped
        else:
            raise InvalidArgument(
                f"the pattern {pattern[:60]!r} has a backslash before {escaped!r}",
                hint="A backslash may only stand before %, _ or another backslash.",
            )


def _bits(places: Collection[int]) -> int:
    """Returns the number with these bits."""
    content = bytearray(max(places, default=0) // 8 + 1)
    for place in places:
        content[place // 8] |= 1 << place % 8
    return int.from_bytes(content, "little")


def _places(bits: int) -> Iterator[int]:
    """Yields the place of each bit that is set."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
