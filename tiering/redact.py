"""The one redactor: text from outside passes it before it is stored, logged or shown (DESIGN 10); and the one place that cuts it."""

from __future__ import annotations

import re

MESSAGE_LIMIT = 2_048
"""Characters of an error message that are kept (DESIGN 5)."""

_SECRET_WORD = r"(?:password|passwd|pwd|secret|token|credentials?|api[-_.]?key|access[-_.]?key(?:[-_.]?id)?|signature)"
_SIGNED = r"(?:X-Amz-[A-Za-z-]+|sig|se|sp|sv|Signature|Expires|AWSAccessKeyId|GoogleAccessId)"
_VALUE = r"""(?:"[^"]*"|'[^']*'|[^\s,;&'"})]+)"""

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # user:password@host in a URL
    (re.compile(r"([a-z][a-z0-9+.-]*://)[^/\s@'\"]+@", re.IGNORECASE), r"\g<1>***@"),
    # presigned query strings
    (re.compile(rf"([?&]{_SIGNED}=)[^&\s'\"]+"), r"\g<1>***"),
    (re.compile(r"(Bearer\s+)[A-Za-z0-9._~+/=-]+", re.IGNORECASE), r"\g<1>***"),
    # "password": "x", 'token' = 'x', s3.secret-access-key=x
    (re.compile(rf"([\w.-]*{_SECRET_WORD}[\w.-]*['\"]?\s*[=:]\s*){_VALUE}", re.IGNORECASE), r"\g<1>***"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), "***"),
)
_SECRET_NAME = re.compile(_SECRET_WORD, re.IGNORECASE)


def redact(text: str) -> str:
    """`text` with passwords, tokens, keys, URL userinfo and presigned query strings as `***`."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def redact_property(name: str, value: str) -> str:
    """The value of a property, hidden whole if its name says that it is a secret."""
    return "***" if _SECRET_NAME.search(name) else redact(value)


def cut_message(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """`text` cut to `limit` characters, on a character boundary; the cut shows as an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
