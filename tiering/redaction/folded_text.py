"""A text with its escapes decoded once (`%3D`, `&quot;`, `\\u0022`), and the position of each character in the original text.

The redactor searches the folded text for secrets, so that it finds a secret in a URL, in XML and in JSON. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

Span = tuple[int, int]
"""From, up to: characters of the text."""

Values = Callable[[str, int], Iterator[Span]]
"""Yields the spans of the value that begins at a position of a text."""

MAX_PLACES = 5_000
"""Places of one kind that are looked at one by one. A text with more of them is noise or an attack."""

SOFT = "\ue000"
"""An encoded blank (`%20`): it separates, but never ends a value."""
SOFT_LINE = "\ue001"
"""An encoded line end, or just the letters `\\n`: it ends a line, but never a value."""

_ESCAPE = re.compile(
    r"%(?P<percent>[0-7][0-9A-Fa-f])|&(?P<entity>quot|apos|lt|gt|amp|#\d{1,3}|#x[0-9A-Fa-f]{1,2});"
    r"|\\{1,8}+(?:u00(?P<unicode>[0-7][0-9A-Fa-f])|x(?P<byte>[0-7][0-9A-Fa-f])|(?P<slash>/)|r?(?P<line>n))"
)
_ENTITIES = {"quot": '"', "apos": "'", "lt": "<", "gt": ">", "amp": "&"}


@dataclass(frozen=True)
class Folded:
    """A text with decoded escapes. `places`: the position of each character, and of the end, in the original; None = the same position."""

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


def fold(text: str, cut: bool) -> tuple[Folded, Span | None]:
    """Returns the folded text, and the span at the end of `text` that it omits because there are too many escapes (None = nothing)."""
    pieces: list[str] = []
    positions: list[int] = []
    position, end = 0, len(text)
    for number, match in enumerate(_ESCAPE.finditer(text)):
        if number == MAX_PLACES:
            end = match.start()
            break
        pieces += (text[position : match.start()], _decoded(match))
        positions.extend(range(position, match.start() + 1))
        position = match.end()
    if not pieces:
        return Folded(text, _lower(text), None, cut), None
    pieces.append(text[position:end])
    positions.extend(range(position, end + 1))
    folded = "".join(pieces)
    return Folded(folded, _lower(folded), positions, cut), (end, len(text)) if end < len(text) else None


def _lower(text: str) -> str:
    return text.replace("\u0130", "I").lower()  # the only character that becomes longer in lower case


def _decoded(match: re.Match[str]) -> str:
    """Returns the character that an escape stands for."""
    kind, digits = match.lastgroup, match[match.lastgroup or 0]
    if kind == "slash":
        return "/"
    if kind == "line":
        return SOFT_LINE
    if kind == "entity":
        if digits in _ENTITIES:
            return _ENTITIES[digits]
        code = int(digits[2:], 16) if digits.startswith("#x") else int(digits[1:])
    else:
        code = int(digits, 16)
    if code == 0x0A:
        return SOFT_LINE
    return SOFT if code <= 0x20 else chr(code)


def places(pattern: re.Pattern[str], text: str, start: int = 0) -> Iterator[re.Match[str] | int]:
    """Yields matches; after MAX_PLACES of them the place where the rest of the text begins."""
    for count, match in enumerate(pattern.finditer(text, start)):
        if count == MAX_PLACES:
            yield match.start()
            return
        yield match


def behind(pattern: re.Pattern[str], lower: str, values: Values) -> Iterator[Span]:
    """Yields the values that stand behind matches. A match inside a value is skipped: it would scan the rest of that value again."""
    done = 0
    for match in places(pattern, lower):
        if isinstance(match, int):
            yield match, len(lower)
        elif match.start() >= done:
            for span in values(lower, match.end()):
                done = span[1]
                yield span
