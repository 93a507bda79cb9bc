"""Controls who sees the pages: a one-time code becomes a session, which a signed cookie names.

The token of the service never reaches the browser. A code is valid once and for five minutes. A session ends after twelve hours, at
sign-out, and with the process, which keeps the signing key only in memory.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import jwt

CODE_SECONDS = 300
SESSION_SECONDS = 12 * 3_600
_ALGORITHM = "HS256"


class SignInCode:
    """The one-time code of the link that `lakeward console` opens. `now` returns the seconds of a steady clock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._code: str | None = None
        self._until = 0.0

    def new(self) -> str:
        """Returns a code. The code before it is void."""
        with self._lock:
            self._code, self._until = secrets.token_urlsafe(32), self._now() + CODE_SECONDS
            return self._code

    def take(self, code: str) -> bool:
        """Returns whether the code is valid. A valid code is void afterwards."""
        with self._lock:
            if self._code is None or self._now() >= self._until or not hmac.compare_digest(code.encode(), self._code.encode()):
                return False
            self._code = None
            return True


@dataclass(frozen=True)
class Session:
    """One signed-in browser. Each POST has to send `csrf_token`, which only pages of this console contain."""

    session_id: str
    csrf_token: str
    _seal_key: bytes = field(repr=False)

    def seal(self, text: str) -> str:
        """Returns a code which proves that a page of this session contained the text."""
        return hmac.new(self._seal_key, text.encode(), hashlib.sha256).hexdigest()


class Sessions:
    """The sessions of one process. A cookie is a signed name of a session that is still open."""

    def __init__(self, seconds: float = SESSION_SECONDS) -> None:
        self._key = secrets.token_bytes(32)
        self._seconds = seconds
        self._open: set[str] = set()

    def open(self) -> str:
        """Opens a session and returns its cookie."""
        session_id = secrets.token_urlsafe(16)
        self._open.add(session_id)
        return jwt.encode({"sid": session_id, "exp": time.time() + self._seconds}, self._key, _ALGORITHM)

    def session(self, cookie: str | None) -> Session | None:
        """Returns the open session that a cookie names; None for any other cookie."""
        try:
            session_id = str(jwt.decode(cookie or "", self._key, [_ALGORITHM], options={"require": ["exp", "sid"]})["sid"])
        except jwt.InvalidTokenError:
            return None
        if session_id not in self._open:
            return None
        return Session(session_id, self._derived("csrf", session_id).hex(), self._derived("seal", session_id))

    def is_open(self, session: Session) -> bool:
        """Returns whether a session has not been ended by sign-out."""
        return session.session_id in self._open

    def close(self, session: Session) -> None:
        """Ends a session: its cookie is void."""
        self._open.discard(session.session_id)

    def _derived(self, purpose: str, session_id: str) -> bytes:
        return hmac.digest(self._key, f"{purpose} {session_id}".encode(), "sha256")


def is_same(sent: str, expected: str) -> bool:
    """Compares a secret that a browser sent, in a time that does not depend on the secret."""
    return hmac.compare_digest(sent.encode(), expected.encode())
