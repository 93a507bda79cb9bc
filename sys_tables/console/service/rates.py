"""Limits of requests to the console, as token buckets: for links that are tried, for pages, and for what runs a process or a CALL.

The service bounds the calls of each caller itself (`tiering.wire.server_guard`). These limits protect the console before that: a browser
with many open tabs, or a program with a cookie, cannot take the threads of the other users' pages.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

MAX_KEYS = 10_000
"""Buckets of one limit. The one that was used longest ago is forgotten, which makes it full again."""


class TokenBuckets:
    """One bucket for each key: `burst` tokens at most, and `per_second` new ones. `now` returns the seconds of a steady clock."""

    def __init__(self, burst: float, per_second: float, now: Callable[[], float] = time.monotonic) -> None:
        self._burst = burst
        self._per_second = per_second
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Tokens by key, and when they were counted; the key that was used last is the last."""

    def wait_seconds(self, key: str) -> float:
        """Takes a token and returns 0.0; without a token, returns the seconds until there is one."""
        now = self._now()
        tokens, since = self._buckets.pop(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._per_second)
        is_taken = tokens >= 1
        self._buckets[key] = tokens - is_taken, now
        if len(self._buckets) > MAX_KEYS:
            self._buckets.popitem(last=False)
        return 0.0 if is_taken else (1 - tokens) / self._per_second


class LimitRates:
    """Middleware behind the session: answers 429 with `Retry-After` to a request above a limit. Static files have no limit."""

    def __init__(self, app: ASGIApp, sign_in: str, static: str, statements: str) -> None:
        self._app = app
        self._sign_in = sign_in
        self._static = static
        self._statements = statements
        self._attempts = TokenBuckets(burst=60, per_second=1)
        """Requests of links by address. A sign-in has two: for the page with the button, and for the session. A link has 256 random bits,
        so this protects from load and not from guesses."""
        self._pages = TokenBuckets(burst=120, per_second=20)
        self._costly_requests = TokenBuckets(burst=30, per_second=1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        wait = self._wait_seconds(scope) if scope["type"] == "http" else 0.0
        if wait:
            answer = PlainTextResponse("Too many requests. Try again soon.", 429, {"Retry-After": str(math.ceil(wait))})
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _wait_seconds(self, scope: Scope) -> float:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if path.startswith(self._static):
            return 0.0
        session = scope.get("state", {}).get("session")
        if session is None:
            address = (scope.get("client") or ("",))[0]
            return self._attempts.wait_seconds(address) if path.startswith(f"{self._sign_in}/") else 0.0
        user = session.caller.name
        is_costly = scope["method"] == "POST" or (path == self._statements and scope["query_string"])
        return self._pages.wait_seconds(user) or (self._costly_requests.wait_seconds(user) if is_costly else 0.0)
