"""Finds secrets without a name before them: a URL with a password, a URL's signature, a header's scheme, a key block, a known kind of
token.

Linear in the text, for the reasons that `secret_forms` gives.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator
from functools import cache

from tiering.redaction.folded_text import SOFT, Folded, Span, behind, places

_AUTHORITY = re.compile(r":(?:\\{0,4}/){2}")
_URL_REST = re.compile(r"(?:[^\s\"'<>`:]++|'(?![\s,;:)}\]]|\Z)|:(?!\\{0,4}/\\{0,4}/))++")
_PORTS = re.compile(r":\d{1,5}+(?:,[^,/@:]{1,256}+:\d{1,5}+){0,64}+")
_PLAIN_AUTHORITY = ("abfs", "abfss", "wasb", "wasbs")
"""Schemes with a container before the '@'."""
_ORACLE = re.compile(r"jdbc:oracle:[a-z0-9]{2,6}+:")
_ORACLE_REST = re.compile(r"(?:[^\sj]++|j(?!dbc:))++")
_GO_DSN = re.compile(r"(?<![\w.-])[\w.-]{1,64}+:([^\s@\"']{1,256}+)@(?:tcp|unix)\(")
_SIGNED = re.compile(
    r"(?:[?&](?:x-(?:amz|goog)-[a-z-]{1,40}+|sig|se|sp|sv|signature|expires|awsaccesskeyid|googleaccessid|code|key(?==[\w-]{16}))"
    r"|(?<![\w-])sig)=(?=[^&\s\"'<>])"
)
_QUERY_VALUE = re.compile(r"[^&\s\"'<>]++")
_BEARER = re.compile(rf"(?<![a-z])bearer[\s{SOFT}]{{1,4}}+(?P<token>[a-z0-9._~+/=-]++)")
_NO_BEARER = re.compile(
    r"token|tokens|auth|authentication|authorization|is|was|scheme|realm|credentials|header|not|and|or|of|expired|"
    r"missing|required"
)
_BASIC = re.compile(rf"(?<![a-z])basic[\s{SOFT}]{{1,4}}+(?P<token>[A-Za-z0-9+/_-]{{4,}}+={{0,2}})", re.IGNORECASE)
_BLANK = f"[ +{SOFT}]"
_BLOCK_BEGIN = re.compile(rf"-{{4,5}}{_BLANK}?begin(?P<kind>[a-z0-9 +{SOFT}]{{1,64}}+)-{{4,5}}|(?P<putty>private-lines:)")
_BLOCK_END = re.compile(rf"-{{4,5}}{_BLANK}?end[a-z0-9 +{SOFT}]{{1,64}}+-{{4,5}}|private-mac:")
_PUBLIC_BLOCKS = ("certificate", "public")
_FEW_CHARACTERS = 2

TOKEN_SHAPES: tuple[tuple[str, str], ...] = (
    ("eyJ", r"[A-Za-z0-9_-]{5,}+(?:\.[A-Za-z0-9_-]*+){0,4}"),  # JWT, and whatever else is JSON in Base64
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
"""The key of an Azure storage account; it starts with nothing of its own."""


def _urls(folded: Folded) -> Iterator[Span]:
    """Yields passwords of `scheme://user:password@host`, also those that hold a `/` or an `@`."""
    lower = folded.lower
    if ":/" not in lower and ":\\" not in lower:
        return
    for match in places(_AUTHORITY, lower):
        if isinstance(match, int):
            yield match, len(lower)
            return
        run = _URL_REST.match(lower, match.end())
        if run is None:
            continue
        user_end = _user_end(run[0], open_ended=folded.cut and run.end() == len(lower))
        plain = lower[max(0, match.start() - 8) : match.start()].endswith(_PLAIN_AUTHORITY) and ":" not in run[0][:user_end]
        if user_end and not plain:
            yield run.start(), run.start() + user_end


def _user_end(rest: str, *, open_ended: bool) -> int:
    """Returns where user and password of a URL end, counted from behind its `//`; 0 if it has none."""
    colon = rest.find(":")
    slash = min((place for place in map(rest.find, "/?#") if place >= 0), default=-1)
    end = rest.rfind("@")
    if end < 0:
        hidden = open_ended and colon >= 0 and not _PORTS.match(rest, colon)
        return len(rest) if hidden else 0
    if slash < 0 or end < slash:
        return end
    before_slash = 0 <= colon < slash and not _PORTS.fullmatch(rest, colon, slash)
    return end if before_slash else max(rest.rfind("@", 0, slash), 0)


def _connections(folded: Folded) -> Iterator[Span]:
    """Yields passwords of `jdbc:oracle:thin:me/x@host` and `me:x@tcp(host)/db`."""
    lower = folded.lower
    if "jdbc:oracle" in lower:
        for match in places(_ORACLE, lower):
            if isinstance(match, int):
                yield match, len(lower)
                return
            run = _ORACLE_REST.match(lower, match.end())
            end = run[0].rfind("@") if run else -1
            if run and end > 0:
                yield run.start(), run.start() + end
            elif run and end < 0 and folded.cut and run.end() == len(lower):
                yield run.span()
    if "@tcp(" in lower or "@unix(" in lower:
        for match in places(_GO_DSN, lower):
            yield (match, len(lower)) if isinstance(match, int) else match.span(1)


def _signed(folded: Folded) -> Iterator[Span]:
    """Yields the signatures of signed URLs."""
    if "=" in folded.lower:
        yield from behind(_SIGNED, folded.lower, _query_value)


def _query_value(lower: str, start: int) -> Iterator[Span]:
    if value := _QUERY_VALUE.match(lower, start):
        yield value.span()


def _schemes(folded: Folded) -> Iterator[Span]:
    """Yields credentials behind an authentication scheme: `Bearer x`, `Basic dTpw`."""
    if "bearer" in folded.lower:
        for match in places(_BEARER, folded.lower):
            if isinstance(match, int):
                yield match, len(folded.lower)
            elif _NO_BEARER.fullmatch(match["token"].strip(".")) is None and len(match["token"]) > _FEW_CHARACTERS:
                yield match.span("token")
    if "basic" in folded.lower:
        for match in places(_BASIC, folded.text):
            if isinstance(match, int):
                yield match, len(folded.text)
            elif _is_user_and_password(match["token"]):
                yield match.span("token")


def _is_user_and_password(token: str) -> bool:
    """Whether a text is the Base64 of `user:password`."""
    head = token.rstrip("=")[:400].replace("-", "+").replace("_", "/")
    try:
        return b":" in b64decode(head[: len(head) // 4 * 4]) or b":" in b64decode(head + "=" * (-len(head) % 4))
    except (NotBase64, ValueError):
        return False


def _blocks(folded: Folded) -> Iterator[Span]:
    """Yields key blocks, from `-----BEGIN PRIVATE KEY-----` to their end line, or to the end of the text."""
    lower, position = folded.lower, 0
    if "begin" not in lower and "private-lines" not in lower:
        return
    while begin := _BLOCK_BEGIN.search(lower, position):
        if begin["kind"] and any(word in begin["kind"] for word in _PUBLIC_BLOCKS):
            position = begin.end()
            continue
        end = _BLOCK_END.search(lower, begin.end())
        position = end.end() if end else len(lower)
        yield begin.start(), position


def _shapes_in(text: str) -> Iterator[re.Pattern[str]]:
    """Yields the patterns of the tokens that may be in `text`: those whose beginning it holds."""
    for start, rest in TOKEN_SHAPES:
        if start in text:
            yield _compiled(rf"(?<![A-Za-z0-9]){re.escape(start)}{rest}")
    if "==" in text:
        yield _compiled(_STORAGE_KEY)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiles a pattern when it is first needed: most processes need none of them."""
    return re.compile(pattern)


def _shapes(folded: Folded) -> Iterator[Span]:
    """Yields tokens of a known kind (`TOKEN_SHAPES`)."""
    for pattern in _shapes_in(folded.text):
        for match in places(pattern, folded.text):
            yield (match, len(folded.text)) if isinstance(match, int) else match.span()


DETECTORS = (_urls, _connections, _signed, _schemes, _blocks, _shapes)
