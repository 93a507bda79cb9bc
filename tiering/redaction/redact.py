"""The one redactor: text from outside passes it before it is stored, logged or shown (DESIGN 10); and the one place that cuts it.

Two layers: secrets that this process holds are masked wherever they stand, in whatever form (`known_secrets`); then what looks like a
secret (`secret_forms`). Both are linear in the text. `outside_text` is for messages: cut, redacted and without control characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from tiering.public_properties import CATALOG_PROPERTIES
from tiering.redaction.known_secrets import KNOWN, remember_environment, secrets_among
from tiering.redaction.secret_forms import is_secret_name, secret_spans
from tiering.redaction.unnamed_secrets import Span
from tiering.redaction.visible_text import visible

MESSAGE_LIMIT = 2_048
"""Characters of an error message that are kept (DESIGN 5)."""
NAME_TEXT_LIMIT = 200
"""Characters of what names a caller, a host, a class of errors."""
MASK = "***"

_AHEAD = 4_096
"""Characters behind the kept ones that are looked at, at least: a secret that begins among the kept ones shows what it is there."""
_SHRINKS = 4
"""Masks shorten a text: so many times its limit are looked at, for as much as possible to be kept."""


def redact(text: str) -> str:
    """`text` with `***` for passwords, tokens, keys and all that looks like them. Linear in the text."""
    return _masked(text, _spans(text), len(text))


def outside_text(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """A message from outside as it may be stored, logged or shown: redacted, without control characters, at most `limit` characters.

    Text far behind the limit is never read.
    """
    emitted = limit * _SHRINKS
    window_length = emitted + max(_AHEAD, KNOWN.longest)
    if len(text) <= window_length:
        return cut_message(visible(redact(text)), limit)
    window = text[:window_length]
    return cut_message(visible(_masked(window, _spans(window, cut=True), emitted) + "…"), limit)


def is_public_property(name: str) -> bool:
    """Whether every caller may see the value of a property of a lake or a catalog."""
    return name in CATALOG_PROPERTIES


def remember_secrets(properties: Mapping[str, str]) -> None:
    """From now on the secrets among the properties of a lake, a catalog or a storage are masked wherever they stand."""
    KNOWN.add(*secrets_among(properties, CATALOG_PROPERTIES))


def redact_property(name: str, value: str) -> str:
    """The value of a property: hidden whole unless its name is public."""
    return redact(value) if is_public_property(name) else MASK


def redact_named(name: str, value: str) -> str:
    """The value of a column or a key of a map, hidden whole if its name says that it is a secret."""
    return MASK if is_secret_name(name) else redact(value)


def cut_message(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """`text` cut to `limit` characters, on a character boundary; the cut shows as an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


@cache
def _know_environment() -> None:
    remember_environment()


def _spans(text: str, *, cut: bool = False) -> list[Span]:
    _know_environment()
    return [*KNOWN.spans(text), *secret_spans(text, cut=cut)]


def _masked(text: str, spans: Iterable[Span], stop: int) -> str:
    """`text` up to `stop`, with one mask for each run of spans that overlap or touch."""
    pieces: list[str] = []
    position = 0
    for start, end in sorted(spans):
        if start >= stop:
            break
        if start > position or not pieces:
            pieces += [text[position:start], MASK]
        position = max(position, end)
    pieces.append(text[position:stop])
    return "".join(pieces)
