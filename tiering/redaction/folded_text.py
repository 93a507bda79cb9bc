"""A text as it reads: encoded characters, letters of other scripts that look alike and characters without a glyph are taken for what
they stand for, with the place of every character kept. Secrets are looked for in it, so that no encoding hides one. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

Span = tuple[int, int]
"""From, up to: characters of the text."""

Values = Callable[[str, int], Iterator[Span]]
"""Of the value that begins at a place of a text: where it stands."""

MAX_PLACES = 5_000
"""Places of one kind that are looked at one by one. A text with more of them is noise or an attack."""

SOFT = "\ue000"
"""An encoded blank (`%20`): it separates, but never ends a value."""
SOFT_LINE = "\ue001"
"""An encoded line end, or just the letters `\\n`: it ends a line, but never a value."""

INVISIBLE = (
    r"\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
"""Characters without a glyph, as a class of a pattern."""
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_FOLDABLE = re.compile(r"[%&\\]|[^\x00-\x7f]")
_ESCAPE = re.compile(
    r"%(?:25){0,4}+(?P<percent>[0-7][0-9A-Fa-f])|&(?:amp;){0,4}+(?P<entity>quot|apos|lt|gt|amp|#\d{1,3}|#x[0-9A-Fa-f]{1,2});"
    r"|\\{1,8}+(?:u[dD](?P<high>[89abAB][0-9A-Fa-f]{2})\\{1,8}+u[dD](?P<low>[c-fC-F][0-9A-Fa-f]{2})|u(?P<unicode>[0-9A-Fa-f]{4})"
    rf"|x(?P<byte>[0-7][0-9A-Fa-f])|(?P<slash>/)|r?(?P<line>n))|(?P<invisible>[{INVISIBLE}]++)"
)
_ENTITIES = {"quot": '"', "apos": "'", "lt": "<", "gt": ">", "amp": "&"}
_TWINS = (
    ("\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u0501\u0261\u04bb\u051b\u051d\u043a", "aeopcyxsijdghqwk"),  # Cyrillic
    ("\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408", "ABEKMHOPCTYXSIJ"),
    ("\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c9\u03c7", "aeiknoptuwx"),  # Greek
    ("\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7", "ABEZHIKMNOPTYX"),
)
"""Letters that look like Latin ones."""
_COMPATIBLE = (range(0xFF01, 0xFF5F), range(0x1D400, 0x1D800), range(0x24B6, 0x24EA))
"""Latin letters and signs again: wide, mathematical, in circles."""


def _look_alikes() -> dict[int, str]:
    """Maps code points to the Latin letter or sign that looks the same."""
    letters = {code: unicodedata.normalize("NFKC", chr(code)) for block in _COMPATIBLE for code in block}
    twins = {ord(twin): letter for others, latin in _TWINS for twin, letter in zip(others, latin, strict=True)}
    return twins | {code: letter for code, letter in letters.items() if len(letter) == 1 and letter.isascii()}


_LOOK_ALIKES = _look_alikes()
_LOOK_ALIKE = re.compile(f"[{''.join(chr(code) for code in _LOOK_ALIKES if code < 0x10000)}]|[\U0001d400-\U0001d7ff]")


@dataclass(frozen=True)
class Folded:
    """A text as a reader sees it. `places` has where each character of it, and its end, is in the original; None = at the same place."""

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
    """Returns the folded text, and the span at the end of `text` that was left out because there are too many escapes; None if nothing
    was.
    """
    if _FOLDABLE.search(text) is None:
        return Folded(text, text.lower(), None, cut), None
    plain = text if text.isascii() or _LOOK_ALIKE.search(text) is None else text.translate(_LOOK_ALIKES)
    if _ESCAPE.search(plain) is None:
        return _folded(plain, None, cut), None
    pieces: list[str] = []
    places: list[int] = []
    position, end = 0, len(text)
    for count, match in enumerate(_ESCAPE.finditer(plain)):
        if count == MAX_PLACES:
            end = match.start()
            break
        pieces.append(plain[position : match.start()])
        places.extend(range(position, match.start()))
        position = match.end()
        if (character := _meant(match)) is not None:
            pieces.append(character)
            places.append(match.start())
    pieces.append(plain[position:end])
    places.extend(range(position, end + 1))
    return _folded("".join(pieces), places, cut), (end, len(text)) if end < len(text) else None


def _folded(plain: str, places: Sequence[int] | None, cut: bool) -> Folded:
    # Of all characters only this one grows in lower case.
    return Folded(plain, plain.replace("\u0130", "I").lower(), places, cut)


def _meant(match: re.Match[str]) -> str | None:
    """Returns the character that an escape stands for; None if nobody could see it."""
    kind, digits = match.lastgroup, match[match.lastgroup or 0]
    match kind:
        case "slash":
            return "/"
        case "line":
            return SOFT_LINE
        case "invisible":
            return None
        case "entity" if digits in _ENTITIES:
            return _ENTITIES[digits]
        case "entity":
            code = int(digits[2:], 16) if digits.startswith("#x") else int(digits[1:])
        case "low":
            code = 0x10000 + ((int(match["high"], 16) & 0x3FF) << 10 | int(digits, 16) & 0x3FF)
        case _:
            code = int(digits, 16)
    if code == 0x0A:
        return SOFT_LINE
    if code <= 0x20:
        return SOFT
    character = _LOOK_ALIKES.get(code) or chr(code)
    return None if _INVISIBLE.match(character) else character


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
