"""The secrets that this process itself holds: they are masked wherever one stands in a text, in whatever form.

A secret is added where it enters the process: from the environment (by the names of its variables, when the first text is redacted)
and from the properties of lakes and catalogs (`redact.remember_secrets`, which the opener of a lake calls). They are never written.
"""

from __future__ import annotations

import html
import json
import os
import re
import threading
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus, unquote

from tiering.redaction.secret_forms import is_secret_name
from tiering.redaction.unnamed_secrets import Span

MAX_SECRETS = 256
"""Most secrets in memory; each costs a search through every text."""
MAX_SECRET_LENGTH = 8_192
_SHORTEST_SECRET = 6
"""Characters: a shorter value would mask words of harmless texts."""
_SHORTEST_UNNAMED = 16
"""Shortest value that counts as a secret although its name does not say so, if it has digits and letters."""
_SHORTEST_ENCODED = 8
_ESCAPE = re.compile(r"(?:\\[a-z]|\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|%[0-9a-f]{2})\Z", re.IGNORECASE)
_NOT_SECRET_VARIABLES = ("PWD", "OLDPWD")


class KnownSecrets:
    """Values to mask, in all their forms. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forms_of: dict[str, set[str]] = {}
        self._forms: tuple[str, ...] = ()

    def add(self, *secrets: str) -> None:
        """Adds values to mask. Beyond MAX_SECRETS the oldest are dropped; values that are too short are not added."""
        usable = [secret for secret in secrets if _SHORTEST_SECRET <= len(secret) <= MAX_SECRET_LENGTH]
        with self._lock:
            if all(secret in self._forms_of for secret in usable):
                return
            for secret in usable:
                self._forms_of[secret] = self._forms_of.pop(secret, set()) or forms_of(secret)
            while len(self._forms_of) > MAX_SECRETS:
                del self._forms_of[next(iter(self._forms_of))]
            self._forms = tuple(sorted(set().union(*self._forms_of.values()), key=len, reverse=True))

    @property
    def longest(self) -> int:
        """The number of characters of the longest form."""
        return len(self._forms[0]) if self._forms else 0

    def spans(self, text: str) -> Iterator[Span]:
        """Yields where secrets stand in `text`. One that is a word is not masked within a longer word: `postgres` in `postgresql://`."""
        for form in self._forms:
            is_word = len(form) < _SHORTEST_UNNAMED and form.isalpha() and form in self._forms_of
            position = text.find(form)
            while position >= 0:
                end = position + len(form)
                if not (is_word and _within_word(text, position, end)):
                    yield position, end
                position = text.find(form, end)


def _within_word(text: str, start: int, end: int) -> bool:
    r"""Whether letters stand right before or behind a span; letters of an escape such as `\n` or `%3D` do not count."""
    before = text[max(0, start - 6) : start]
    return text[end : end + 1].isalpha() or (before[-1:].isalpha() and _ESCAPE.search(before) is None)


def forms_of(secret: str) -> set[str]:
    """Returns the forms in which texts show a value: as it is, escaped for URLs, JSON, Python and XML, in Base64 and as hex digits.

    Of a value with several lines each line has its forms.
    """
    encoded = secret.encode(errors="surrogatepass")
    forms = {secret, quote(secret, safe="", errors="replace"), quote(secret, errors="replace"), quote_plus(secret, errors="replace")}
    forms |= {
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        html.escape(secret),
        encoded.hex(),
    }
    forms |= {form for form in _base64_forms(encoded) if len(form) >= _SHORTEST_ENCODED}
    lines = [line.strip() for line in secret.splitlines()]
    if len(lines) > 1:
        forms |= {line for line in lines if len(line) >= _SHORTEST_UNNAMED and not line.startswith("-----")}
    return forms


def _base64_forms(encoded: bytes) -> Iterator[str]:
    """Yields the Base64 that any text holding the value may show: it depends on where in a group of three bytes the value begins."""
    for shift in range(3):
        text = b64encode(b"\0" * shift + encoded).decode().rstrip("=")
        whole_bits = (shift + len(encoded)) * 8 // 6  # the last character depends on what follows
        inner = text[(shift * 8 + 5) // 6 : whole_bits]
        yield from (inner, inner.replace("+", "-").replace("/", "_"))


KNOWN = KnownSecrets()
"""The secrets of this process."""


def secrets_among(properties: Mapping[str, str], public: Iterable[str] = ()) -> Iterator[str]:
    """Yields the values whose names, or looks, say that they are secrets. Values of `public` names are none, but for passwords in URLs."""
    known_public = frozenset(public)
    for name, value in properties.items():
        yield from _passwords_in_url(value)
        if name in known_public:
            continue
        if is_secret_name(name) or (len(value) >= _SHORTEST_UNNAMED and _looks_made_up(value)):
            yield value
            yield from (part for part in value.split() if len(part) >= _SHORTEST_UNNAMED)  # `Bearer x`


def environment_secrets(environment: Mapping[str, str]) -> Iterator[str]:
    """Yields the values of variables with secret names, and passwords within URLs."""
    for name, value in environment.items():
        yield from _passwords_in_url(value)
        if name not in _NOT_SECRET_VARIABLES and is_secret_name(name):
            yield value


def remember_environment() -> None:
    """Adds the secrets of this process's environment, but not paths of files or folders that exist: these only say where a secret lies."""
    KNOWN.add(*(value for value in environment_secrets(os.environ) if not (value.startswith("/") and os.path.exists(value))))


def _passwords_in_url(value: str) -> Iterator[str]:
    _, separator, address = value.partition("://")
    user, at, _ = address.rpartition("@")
    password = user.partition(":")[2]
    if separator and at and password:
        yield from (password, unquote(password))


def _looks_made_up(value: str) -> bool:
    """Whether a text mixes letters and digits without a blank, and is neither a path nor a URL nor the name of a class."""
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and not any(sign in value for sign in " /\\:.,")
