"""Controls who sees the pages: a one-time code becomes a session, which a signed cookie names.

The token of the service never reaches the browser. A code is valid once and for five minutes. A session ends after twelve hours, at
sign-out, when the service refuses its token, and with the process, which keeps sessions and the signing key only in memory.
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

from sys_tables.console.service.callers import THIS_USER, Caller

CODE_SECONDS = 300
SESSION_SECONDS = 12 * 3_600
MAX_CODES = 1_000
MAX_SESSIONS = 1_000
"""Limits of codes and sessions of one process. A program that asks for links without end takes only memory for so many."""
_ALGORITHM = "HS256"


class SignInCodes:
    """The one-time codes of the links that `lakeward console` opens. It is thread-safe. `now` returns the seconds of a steady clock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._pending: dict[bytes, tuple[Caller, float]] = {}
        """Callers and ends of validity by the hash of the code, oldest first. The time of a look-up in hashes tells nothing of a code."""

    def new(self, caller: Caller = THIS_USER) -> str:
        """Returns a code that signs in as `caller`. The oldest code is void if too many are pending."""
        code = secrets.token_urlsafe(32)
        with self._lock:
            while len(self._pending) >= MAX_CODES:
                del self._pending[next(iter(self._pending))]
            self._pending[_digest(code)] = caller, self._now() + CODE_SECONDS
        return code

    def caller(self, code: str) -> Caller | None:
        """Returns the caller of a valid code, which stays valid; None for any other code."""
        with self._lock:
            caller, until = self._pending.get(_digest(code), (None, 0.0))
            return caller if self._now() < until else None

    def take(self, code: str) -> Caller | None:
        """Returns the caller of a valid code, which is void afterwards; None for any other code."""
        with self._lock:
            caller, until = self._pending.pop(_digest(code), (None, 0.0))
            return caller if self._now() < until else None


@dataclass(frozen=True)
class Session:
    """One signed-in browser. Each POST has to send `csrf_token`, which only pages of this console contain."""

    session_id: str
    csrf_token: str
    _seal_key: bytes = field(repr=False)
    caller: Caller = THIS_USER

    def seal(self, text: str) -> str:
        """Returns a code which proves that a page of this session contained the text."""
        return hmac.new(self._seal_key, text.encode(), hashlib.sha256).hexdigest()


class Sessions:
    """The sessions of one process. A cookie is a signed name of a session that is still open."""

    def __init__(self, seconds: float = SESSION_SECONDS) -> None:
        self._key = secrets.token_bytes(32)
        self._seconds = seconds
        self._open: dict[str, tuple[Caller, float]] = {}
        """Callers and ends (Unix time) of the open sessions, oldest first."""

    def open(self, caller: Caller = THIS_USER) -> str:
        """Opens a session and returns its cookie. The oldest session ends if too many are open."""
        while self._open and (len(self._open) >= MAX_SESSIONS or next(iter(self._open.values()))[1] < time.time()):
            del self._open[next(iter(self._open))]
        session_id = secrets.token_urlsafe(16)
        self._open[session_id] = caller, time.time() + self._seconds
        return jwt.encode({"sid": session_id, "exp": time.time() + self._seconds}, self._key, _ALGORITHM)

    def session(self, cookie: str | None) -> Session | None:
        """Returns the open session that a cookie names; None for any other cookie."""
        try:
            session_id = str(jwt.decode(cookie or "", self._key, [_ALGORITHM], options={"require": ["exp", "sid"]})["sid"])
        except jwt.InvalidTokenError:
            return None
        if session_id not in self._open:
            return None
        caller, _ = self._open[session_id]
        return Session(session_id, self._derived("csrf", session_id).hex(), self._derived("seal", session_id), caller)

    def is_open(self, session: Session) -> bool:
        """Returns whether a session has not ended."""
        return self._open.get(session.session_id, (None, 0.0))[1] > time.time()

    def close(self, session: Session) -> None:
        """Ends a session: its cookie is void."""
        self._open.pop(session.session_id, None)

    def close_all(self) -> None:
        """Ends all sessions. Streams of pages then end by themselves."""
        self._open.clear()

    def _derived(self, purpose: str, session_id: str) -> bytes:
        return hmac.digest(self._key, f"{purpose} {session_id}".encode(), "sha256")


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode()).digest()


def is_same(sent: str, expected: str) -> bool:
    """Compares a secret that a browser sent, in a time that does not depend on the secret."""
    return hmac.compare_digest(sent.encode(), expected.encode())
