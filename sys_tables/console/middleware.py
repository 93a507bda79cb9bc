"""Middleware of all pages: security headers, and a session for every page except sign-in and static files."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sys_tables.console.service.callers import task_calls_as
from sys_tables.console.signing_in import Sessions

SIGN_IN = "/sign-in"
STATIC = "/static"

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Nothing is stored by the browser: a page has names of tables, and the machine may have other users."""


class SecurityHeaders:
    """Adds SECURITY_HEADERS to every answer, also to errors."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class RequireSession:
    """Sends a browser without a session to the sign-in page. Endpoints find the session in `request.state.session`."""

    def __init__(self, app: ASGIApp, sessions: Sessions, cookie_name: str) -> None:
        self._app = app
        self._sessions = sessions
        self._cookie_name = cookie_name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http" or _is_open(scope["path"].removeprefix(scope.get("root_path", ""))):
            await self._app(scope, receive, send)
            return
        session = self._sessions.session(Request(scope).cookies.get(self._cookie_name))
        if session is None:
            await RedirectResponse(sign_in_path(scope), status_code=303)(scope, receive, send)
            return
        task_calls_as(session.caller)
        scope.setdefault("state", {})["session"] = session
        await self._app(scope, receive, send)


def sign_in_path(scope: Scope) -> str:
    """Returns the path of the sign-in page, below the path at which the console is mounted."""
    return f"{scope.get('root_path', '')}{SIGN_IN}"


def _is_open(path: str) -> bool:
    """Returns whether a path needs no session."""
    return path == SIGN_IN or path.startswith((f"{SIGN_IN}/", f"{STATIC}/"))
