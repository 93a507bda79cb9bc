"""What callers may call themselves and their things, checked where a request enters.

Ids by which something is found again are refused where they cannot be: an id that was changed would name another thing. Names that only
inform (a caller, a host) are cut, and shown without control characters: nobody's call fails for them.
"""

from __future__ import annotations

from tiering.errors import InvalidArgument
from tiering.redaction.redact import NAME_TEXT_LIMIT, outside_text
from tiering.redaction.visible_text import visible_line

ID_LIMIT = 256
"""Characters of an id."""
ANONYMOUS = "anonymous"


def check_id(text: str, what: str, limit: int = ID_LIMIT) -> str:
    """`text`, if it can be an id; raises InvalidArgument saying what (`idempotency_key`, ...) is wrong and why."""
    if not 0 < len(text) <= limit:
        raise InvalidArgument(f"{what} must have 1 to {limit} characters, but has {len(text)}")
    if visible_line(text) != text:
        raise InvalidArgument(f"{what} must have no control characters, but is {text!r}")
    return text


def informative(text: str) -> str:
    """A name that only informs, on one line, cut and without secrets."""
    return visible_line(outside_text(text, NAME_TEXT_LIMIT))[:NAME_TEXT_LIMIT]


def caller_name(text: str) -> str:
    """Who calls, as it is stored, logged and shown."""
    return informative(text) or ANONYMOUS
