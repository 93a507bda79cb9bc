"""SQL's LIKE, matched in one pass over a text: a caller chooses the pattern, so a match must never go back to try again.

Python's `re` backtracks, and holds the interpreter's lock meanwhile: a pattern such as `%%%%%x` would stop the whole service.
"""

from __future__ import annotations

from tiering.errors import InvalidArgument


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


def _escaped(character: str, pattern: str) -> str:
    if character not in ("%", "_", "\\"):
        raise InvalidArgument(
            f"the pattern {pattern[:60]!r} has a backslash before {character!r}",
            hint="A backslash stands before %, _ or a backslash.",
        )
    return character
