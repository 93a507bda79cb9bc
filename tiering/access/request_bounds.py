"""Bounds of ids and names in requests, checked where a request enters.

An id by which something is looked up again is refused when it is too long or has control characters: cut, it would name another thing.
A name that only informs (a caller, a host) is cut and cleaned instead: no call fails for it.
"""

from __future__ import annotations

from tiering.access.acting_for import acting_principal
from tiering.errors import InvalidArgument
from tiering.redaction.redact import NAME_TEXT_LIMIT, outside_text
from tiering.redaction.visible_text import visible_line

ID_LIMIT = 256
"""Characters of an id at most."""
ANONYMOUS = "anonymous"


def check_id(text: str, name: str, limit: int = ID_LIMIT) -> str:
    """`text`, if it can be an id. Raises InvalidArgument, which says `name` (`idempotency_key`, ...) and the reason."""
    if not 0 < len(text) <= limit:
        raise InvalidArgument(f"{name} must have 1 to {limit} characters, but has {len(text)}")
    if visible_line(text) != text:
        raise InvalidArgument(f"{name} must have no control characters, but is {text!r}")
    return text


def informative(text: str) -> str:
    """A name that only informs, on one line, cut and without secrets."""
    return visible_line(outside_text(text, NAME_TEXT_LIMIT))[:NAME_TEXT_LIMIT]


def caller_name(text: str) -> str:
    """Returns the caller for storage, logs and display: the authenticated identity, else the name in the message."""
    return informative(acting_principal(text)) or ANONYMOUS
