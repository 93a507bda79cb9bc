"""Finds secrets without a name before them: a URL with a password, a URL's signature, a header's scheme, a key block, a known kind of
token.

The work is linear in the length of the text, for the reasons in `secret_forms`.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

Span = tuple[int, int]
"""From, up to: characters of the text."""

MAX_PLACES = 5_000
"""Upper bound of the matches of a pattern that are examined. A text with more of them is noise or an attack, and its end is hidden."""


@dataclass(frozen=True)
class SearchedText:
    """A text to search. `lower` has the same length. `cut` says that the text went on behind its end."""

    text: str
    lower: str
    has_lines: bool
    cut: bool


Form = tuple[Sequence[str], re.Pattern[str], Callable[[SearchedText, re.Match[str]], Span | None]]
"""Words of which at least one occurs, a pattern, and a function that returns where the secret of a match stands, if it is one."""

_AUTHORITY = re.compile(r":(?:\\{0,4}/){2}(?=[^\s\"'<>`:])")
_URL_REST = re.compile(r"(?:[^\s\"'<>`:]++|'(?![\s,;:)}\]]|\Z)|:(?!\\{0,4}/\\{0,4}/))++")
_PORTS = re.compile(r":\d{1,5}+(?:,[^,/@:]{1,256}+:\d{1,5}+){0,64}+")
_PLAIN_AUTHORITY = ("abfs", "abfss", "wasb", "wasbs")
"""Schemes with a container before the '@'."""
_ORACLE = re.compile(r"jdbc:oracle:[a-z0-9]{2,6}+:")
_ORACLE_REST = re.compile(r"(?:[^\sj]++|j(?!dbc:))++")
_ENCODED_USER = re.compile(r"%3a%2f%2f(?P<hidden>(?:[^\s\"'<>&%]++|%(?!40|2f|3f|23))++)%40")
_GO_DSN = re.compile(r"(?<![\w.-])[\w.-]{1,64}+:(?P<hidden>[^\s@\"']{1,256}+)@(?:tcp|unix)\(")
_EQUALS = "(?:=|%3d)"
_SIGNED = re.compile(
    r"(?:(?:[?&]|%3f|%26)(?:x-(?:amz|goog)-[a-z-]{1,40}+|sig|se|sp|sv|signature|expires|awsaccesskeyid|googleaccessid|code"
    rf"|key(?={_EQUALS}[\w-]{{16}}))|(?<![\w-])sig){_EQUALS}(?P<hidden>[^&\s\"'<>]++)"
)
_BEARER = re.compile(r"(?<![a-z])bearer(?:\s|%20){1,4}+(?P<hidden>[a-z0-9._~+/=-]++)")
_NO_BEARER = re.compile(
    r"token|tokens|auth|authentication|authorization|is|was|scheme|realm|credentials|header|not|and|or|of|expired|"
    r"missing|required"
)
_BASIC = re.compile(r"(?<![a-z])basic(?:\s|%20){1,4}+(?P<hidden>[a-z0-9+/_-]{4,}+={0,2})")
_BLANK = "(?:[ +]|%20)"
_BLOCK_BEGIN = re.compile(rf"-{{4,5}}{_BLANK}?begin(?P<kind>[a-z0-9 +%]{{1,64}}+)-{{4,5}}|(?P<putty>private-lines:)")
_BLOCK_END = re.compile(rf"-{{4,5}}{_BLANK}?end[a-z0-9 +%]{{1,64}}+-{{4,5}}|private-mac:")
_PUBLIC_BLOCKS = ("certificate", "public")
_FEW_CHARACTERS = 2

TOKEN_SHAPES: tuple[tuple[str, str], ...] = (
    ("eyJ", r"[A-Za-z0-9_-]{5,}+(?:\.[A-Za-z0-9_-]*+){0,4}"),  # JWT, and any other JSON in Base64
    *((kind, r"[A-Z0-9]{16}(?![A-Z0-9])") for kind in ("AKIA", "ASIA", "AGPA", "AIDA", "AROA", "ANPA", "ABIA", "ACCA")),  # AWS
    *((f"gh{kind}_", r"[A-Za-z0-9]{20,}+") for kind in "pousr"),  # GitHub
    ("github_pat_", r"\w{20,}+"),
    ("glpat-", r"[\w-]{15,}+"),  # GitLab
    *((f"xox{kind}-", r"[\w-]{10,}+") for kind in "abeoprs"),  # Slack
    ("xapp-", r"[\w-]{10,}+"),
    ("hooks.slack.com/services/", r"[\w/]{8,}+"),
    ("AIza", r"[\w-]{30,}+"),  # Google
    ("ya29.", r"[\w.-]{10,}+"),
    ("GOCSPX-", r"[\w-]{10,}+"),
    *((f"{kind}k_{mode}_", r"\w{10,}+") for kind in "sr" for mode in ("live", "test")),  # Stripe
    ("sk-", r"[\w-]{20,}+"),
    ("npm_", r"[A-Za-z0-9]{30,}+"),
    ("pypi-AgE", r"[\w-]{20,}+"),
    ("hf_", r"[A-Za-z0-9]{30,}+"),
    ("dapi", r"[0-9a-f]{32}"),  # Databricks
    ("dop_v1_", r"[0-9a-f]{32,}+"),
    ("hvs.", r"[\w-]{20,}+"),  # Vault
    ("SG.", r"[\w-]{16,}+\.[\w-]{16,}+"),  # SendGrid
    ("AGE-SECRET-KEY-1", r"[A-Z0-9]{20,}+"),
)
"""The beginning that the maker of a kind of token gave it, and the pattern of what follows."""
_STORAGE_KEY = r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{86}=="
"""The key of an Azure storage account; it has no prefix of its own."""


def _url_user(searched: SearchedText, match: re.Match[str]) -> Span | None:
    """Returns user and password of `scheme://user:password@host`, also a password that holds a `/` or an `@`."""
    lower, start = searched.lower, match.end()
    stop = end_of(_URL_REST, lower, start)
    authority = lower[start:stop]
    user_end = _user_end(authority, open_ended=searched.cut and stop == len(lower))
    is_plain = lower[max(0, match.start() - 8) : match.start()].endswith(_PLAIN_AUTHORITY) and ":" not in authority[:user_end]
    return (start, start + user_end) if user_end and not is_plain else None


def _user_end(authority: str, *, open_ended: bool) -> int:
    """Returns where user and password of a URL end, counted from behind its `//`; 0 if it has none."""
    colon = authority.find(":")
    slash = min((place for place in map(authority.find, "/?#") if place >= 0), default=-1)
    end = authority.rfind("@")
    if end < 0:
        hidden = open_ended and colon >= 0 and not _PORTS.match(authority, colon)
        return len(authority) if hidden else 0
    if slash < 0 or end < slash:
        return end
    before_slash = 0 <= colon < slash and not _PORTS.fullmatch(authority, colon, slash)
    return end if before_slash else max(authority.rfind("@", 0, slash), 0)


def _oracle_user(searched: SearchedText, match: re.Match[str]) -> Span | None:
    """Returns user and password of `jdbc:oracle:thin:me/x@host`."""
    start, stop = match.end(), end_of(_ORACLE_REST, searched.lower, match.end())
    end = searched.lower.rfind("@", start, stop)
    if end < 0 and searched.cut and stop == len(searched.lower):
        end = stop
    return (start, end) if end > start else None


def _hidden(_: SearchedText, match: re.Match[str]) -> Span:
    return match.span("hidden")


def _bearer(_: SearchedText, match: re.Match[str]) -> Span | None:
    is_word = _NO_BEARER.fullmatch(match["hidden"].strip(".")) is not None or len(match["hidden"]) <= _FEW_CHARACTERS
    return None if is_word else match.span("hidden")


def _basic(searched: SearchedText, match: re.Match[str]) -> Span | None:
    """Returns the credential if it is the Base64 of `user:password`."""
    head = searched.text[slice(*match.span("hidden"))].rstrip("=")[:400].replace("-", "+").replace("_", "/")
    try:
        has_user = b":" in b64decode(head[: len(head) // 4 * 4]) or b":" in b64decode(head + "=" * (-len(head) % 4))
    except (NotBase64, ValueError):
        has_user = False
    return match.span("hidden") if has_user else None


def _block(searched: SearchedText, begin: re.Match[str]) -> Span | None:
    """Returns a key block, from `-----BEGIN PRIVATE KEY-----` to its end line, or to the end of the text."""
    if begin["kind"] and any(word in begin["kind"] for word in _PUBLIC_BLOCKS):
        return None
    end = _BLOCK_END.search(searched.lower, begin.end())
    return begin.start(), end.end() if end else len(searched.lower)


FORMS: tuple[Form, ...] = (
    ((":/", ":\\"), _AUTHORITY, _url_user),
    (("jdbc:oracle",), _ORACLE, _oracle_user),
    (("@tcp(", "@unix("), _GO_DSN, _hidden),
    (("%3a%2f%2f",), _ENCODED_USER, _hidden),
    (("=", "%3d"), _SIGNED, _hidden),
    (("bearer",), _BEARER, _bearer),
    (("basic",), _BASIC, _basic),
    (("begin", "private-lines"), _BLOCK_BEGIN, _block),
)


def spans_of(forms: Sequence[Form], searched: SearchedText) -> Iterator[Span]:
    """Yields where secrets stand. A match inside a found value is skipped: it would scan the rest of that value again."""
    for hints, pattern, value in forms:
        done = 0
        matches = pattern.finditer(searched.lower) if any(map(searched.lower.__contains__, hints)) else iter(())
        for match in islice(matches, MAX_PLACES):
            if match.start() >= done and (span := value(searched, match)) is not None:
                done = span[1]
                yield span
        yield from ((match.start(), len(searched.lower)) for match in islice(matches, 1))


def end_of(pattern: re.Pattern[str], text: str, start: int) -> int:
    """Returns where the match at `start` ends; `start` if there is none."""
    match = pattern.match(text, start)
    return match.end() if match else start


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiles a pattern when it is first needed: most processes need none of them."""
    return re.compile(pattern)


def token_spans(searched: SearchedText) -> Iterator[Span]:
    """Yields tokens of a known kind (`TOKEN_SHAPES`). Their letters are upper or lower case."""
    patterns = [rf"(?<![A-Za-z0-9]){re.escape(start)}{authority}" for start, authority in TOKEN_SHAPES if start in searched.text]
    for pattern in (*patterns, *((_STORAGE_KEY,) if "==" in searched.text else ())):
        yield from (match.span() for match in _compiled(pattern).finditer(searched.text))
