"""Pages on which a session begins and ends: by a one-time link, or at the identity provider of the service; and pages about errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from sys_tables.console.forms import Form, form_route
from sys_tables.console.middleware import SECURITY_HEADERS, SIGN_IN, sign_in_path
from sys_tables.console.pages import Pages
from sys_tables.console.service.callers import Caller
from sys_tables.console.service.identity_provider import COOKIE_SECONDS, IdentityProvider
from sys_tables.console.signing_in import SESSION_SECONDS, Session, Sessions, SignInCodes
from tiering.errors import AccessDenied, BadRequest, LakewardError, Unauthenticated, UnknownProcedure, UnknownTable

LOOPBACK = ("127.0.0.1", "localhost")
"""Names under which a browser may ask. Any other name in the header Host is that of a page which points its own name at 127.0.0.1."""

ANSWER = f"{SIGN_IN}/answer"
"""Path at which the identity provider answers."""


@dataclass(frozen=True)
class Site:
    """Where browsers find the console. The port is part of the cookie's name, because browsers ignore it otherwise."""

    port: int
    hosts: Sequence[str] = LOOPBACK
    is_secure: bool = False
    """Whether browsers use https."""
    command: str = "lakeward console --print"
    """Command that prints a sign-in link."""

    @property
    def cookie(self) -> str:
        """The name of the cookie. With the prefix, browsers take it only from this host, and only over https."""
        return f"{'__Host-' if self.is_secure else ''}lakeward-console-{self.port}"


def _is_own_form(request: Request) -> bool:
    """Returns whether a form of the console, or a program that is no browser, sent the request.

    Browsers send no Sec-Fetch-Site over http to another machine. Their Origin is `null` for pages of other sites that hide it.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site == "same-origin"
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def sentence(message: str) -> str:
    """Returns the message of an error as a sentence."""
    return f"{message[:1].upper()}{message[1:]}."


class SignInPages:
    """The endpoints."""

    def __init__(self, pages: Pages, codes: SignInCodes, sessions: Sessions, site: Site, provider: IdentityProvider | None) -> None:
        self._pages = pages
        self._codes = codes
        self._sessions = sessions
        self._site = site
        self._provider = provider

    def routes(self) -> list[Route]:
        """Returns the routes of the pages."""
        with_provider = [
            Route(f"{SIGN_IN}/provider", self.ask_provider, name="sign_in_with_provider"),
            Route(ANSWER, self.take_answer, name="sign_in_answer"),
        ]
        return [
            Route(SIGN_IN, self.sign_in_page, name="sign_in"),
            *(with_provider if self._provider else ()),
            Route(f"{SIGN_IN}/{{code}}", self.link_page, name="sign_in_with_code"),
            Route(f"{SIGN_IN}/{{code}}", self.sign_in, methods=["POST"]),
            form_route("/sign-out", self.sign_out, "sign_out"),
        ]

    async def sign_in_page(self, request: Request) -> Response:
        return self._sign_in_page(request)

    def _sign_in_page(self, request: Request, problem: str = "", status_code: int = 200) -> Response:
        content = {"command": self._site.command, "provider": self._provider and self._provider.host, "problem": problem}
        return self._pages.page(request, "sign_in.html", content, status_code)

    async def link_page(self, request: Request) -> Response:
        """Shows the button that signs in. It does not use up the link, because programs that preview or scan links open it, too."""
        code = request.path_params["code"]
        caller = self._codes.caller(code)
        if caller is None:
            return self._void_link(request)
        return self._pages.page(request, "sign_in_link.html", {"code": code, "name": caller.name})

    async def sign_in(self, request: Request) -> Response:
        """Exchanges the code for a session. The page then leaves the address with the code.

        A form of another site only leads to the button, so that no site signs a browser in as a user of its choice.
        """
        if not _is_own_form(request):
            return await self.link_page(request)
        caller = self._codes.take(request.path_params["code"])
        return self._void_link(request) if caller is None else self._signed_in(request, caller)

    def _void_link(self, request: Request) -> Response:
        return self._sign_in_page(request, "This link is not valid any more. A link works once, and for five minutes.", 403)

    async def ask_provider(self, request: Request) -> Response:
        """Sends the browser to the identity provider."""
        assert self._provider is not None
        address, pending = await self._provider.begin()
        response = RedirectResponse(address, 303)
        response.set_cookie(self._pending_cookie, pending, COOKIE_SECONDS, **self._of_pending(request))
        return response

    async def take_answer(self, request: Request) -> Response:
        """Exchanges the provider's answer for a session."""
        assert self._provider is not None
        try:
            caller = await self._provider.finish(request.cookies.get(self._pending_cookie), request.query_params)
            response = self._signed_in(request, caller)
        except LakewardError as error:
            status_code = 403 if isinstance(error, Unauthenticated) else 503
            response = self._sign_in_page(request, f"{sentence(error.message)} {error.hint}", status_code)
        response.delete_cookie(self._pending_cookie, **self._of_pending(request))
        return response

    @property
    def _pending_cookie(self) -> str:
        return f"lakeward-sign-in-{self._site.port}"

    def _of_pending(self, request: Request) -> dict[str, Any]:
        """Returns the attributes of that cookie. It is lax, because the provider's answer is a request from another site."""
        return {"path": sign_in_path(request.scope), "secure": self._site.is_secure, "httponly": True, "samesite": "lax"}

    def _signed_in(self, request: Request, caller: Caller) -> Response:
        """Returns a page and not a redirect, because a browser sends no strict cookie with a redirect that begins on another site."""
        response = self._pages.page(request, "signed_in.html", {})
        response.set_cookie(
            self._site.cookie, self._sessions.open(caller), SESSION_SECONDS, secure=self._site.is_secure, httponly=True, samesite="strict"
        )
        return response

    async def sign_out(self, request: Request, form: Form) -> Response:
        return self._signed_out(request, request.state.session)

    def _signed_out(self, request: Request, session: Session) -> Response:
        self._sessions.close(session)
        response = RedirectResponse(sign_in_path(request.scope), status_code=303)
        response.delete_cookie(self._site.cookie, secure=self._site.is_secure, httponly=True, samesite="strict")
        return response

    async def error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, LakewardError)
        session: Session | None = getattr(request.state, "session", None)
        if isinstance(error, Unauthenticated) and session is not None and session.caller.token is not None:
            return self._signed_out(request, session)  # the token was revoked or has expired
        return self._pages.page(request, "error.html", {"message": error.message, "hint": error.hint}, _status_code(error))

    async def failure(self, request: Request, error: Exception) -> Response:
        """Returns the page about an error in the console itself. Starlette raises the error again, and the server logs it."""
        content = {"message": "The console itself has an error.", "hint": "Its log has more."}
        response = self._pages.page(request, "error.html", content, 500)
        response.headers.update(SECURITY_HEADERS)  # this answer passes no middleware
        return response

    async def http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return self._pages.page(request, "error.html", {"message": error.detail, "hint": ""}, error.status_code)


def _status_code(error: LakewardError) -> int:
    match error:
        case UnknownTable() | UnknownProcedure():
            return 404
        case AccessDenied():
            return 403
        case BadRequest():
            return 400
    return 503
