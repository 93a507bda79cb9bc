"""A text with its escapes decoded once (`%3D`, `&quot;`, `\\u0022`), and the position of each character in the original text.

The redactor searches the folded text for secrets, so that it finds a secret in a URL, in XML and in JSON. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import unescape
from itertools import islice
from urllib.parse import unquote

Span = tuple[int, int]
"""From, up to: characters of the text."""

MAX_PLACES = 5_000
"""Upper bound of the matches of a pattern that are examined. A text with more of them is noise or an attack, and its end is hidden."""

SOFT = "\ue000"
"""An encoded blank (`%20`): it separates, but never ends a value."""
SOFT_LINE = "\ue001"
"""An encoded line end, or just the letters `\\n`: it ends a line, but never a value."""

_ESCAPE = re.compile(
    r"%[0-7][0-9A-Fa-f]|&(?:quot|apos|lt|gt|amp|#\d{1,3}|#x[0-9A-Fa-f]{1,2});|\\{1,8}+(?:u00[0-7][0-9A-Fa-f]|x[0-7][0-9A-Fa-f]|/|r?n)"
)


@dataclass(frozen=True)
class Folded:
    """A text with decoded escapes. `places`: the position of each character, and of the end, in the original; None = the same position.

    The end is before that of the original if there are too many escapes.
    """

    text: str
    lower: str
    places: Sequence[int] | None
    cut: bool

    @cached_property
    def has_lines(self) -> bool:
        """Whether the text has more than one line."""
        return "\n" in self.text or SOFT_LINE in self.text

    def at(self, span: Span) -> Span:
        """Returns where a span of the folded text is in the original."""
        return span if self.places is None else (self.places[span[0]], self.places[span[1]])


Form = tuple[Sequence[str], re.Pattern[str], Callable[[Folded, re.Match[str]], Span | None]]
"""Texts of which at least one occurs, a pattern, and a function that returns where the secret of a match stands, if it is one."""


def fold(text: str, cut: bool) -> Folded:
    """Returns the folded text. `cut` says that the text went on behind its end."""
    pieces: list[str] = []
    positions: list[int] = []
    position = 0
    matches = _ESCAPE.finditer(text)
    for match in islice(matches, MAX_PLACES):
        pieces += (text[position : match.start()], _decoded(match[0]))
        positions.extend(range(position, match.start() + 1))
        position = match.end()
    end = next((match.start() for match in matches), len(text))
    pieces.append(text[position:end])
    positions.extend(range(position, end + 1) if position else ())
    folded = "".join(pieces)
    lower = folded.replace("\u0130", "I").lower()  # the only character that becomes longer in lower case
    return Folded(folded, lower, positions or None, cut)


@lru_cache(4_096)
def _decoded(escape: str) -> str:
    """Returns the character that an escape stands for."""
    if escape[0] == "\\":
        kind, digits = escape.lstrip("\\")[:1], escape[-2:]
        character = {"/": "/", "r": "\n", "n": "\n"}.get(kind) or chr(int(digits, 16))
    else:
        character = unescape(unquote(escape))
    return SOFT_LINE if character == "\n" else SOFT if character <= " " else character


def spans_of(forms: Sequence[Form], folded: Folded) -> Iterator[Span]:
    """Yields where secrets stand. A match inside a found value is skipped: it would scan the rest of that value again."""
    for hints, pattern, value in forms:
        done = 0
        matches = pattern.finditer(folded.lower) if any(map(folded.lower.__contains__, hints)) else iter(())
        for match in islice(matches, MAX_PLACES):
            if match.start() >= done and (span := value(folded, match)) is not None:
                done = span[1]
                yield span
        yield from ((match.start(), len(folded.lower)) for match in islice(matches, 1))


def end_of(pattern: re.Pattern[str], text: str, start: int) -> int:
    """Returns where the match at `start` ends; `start` if there is none."""
    match = pattern.match(text, start)
    return match.end() if match else start
