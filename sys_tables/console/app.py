"""The web application: its routes, its forms, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from sys_tables.console.action_pages import ActionPages
from sys_tables.console.actions import Calls
from sys_tables.console.forms import Form, form_route
from sys_tables.console.help.page import help_routes
from sys_tables.console.live import LiveStreams
from sys_tables.console.middleware import SIGN_IN, STATIC, RequireSession, SecurityHeaders, sign_in_path
from sys_tables.console.overview import Search, overview
from sys_tables.console.pages import Pages
from sys_tables.console.reader import Reader, Reads
from sys_tables.console.service.rates import LimitRates
from sys_tables.console.signing_in import SESSION_SECONDS, Session, Sessions, SignInCodes
from sys_tables.console.sql.page import SqlPage
from sys_tables.console.sql.runner import StatementRunner, Streams
from sys_tables.console.system_pages import SystemPages
from sys_tables.console.table_page import table_page
from sys_tables.console.views.list_pages import list_routes
from sys_tables.console.views.round_page import round_page
from sys_tables.registry import default_registry
from tiering.errors import AccessDenied, BadRequest, LakewardError, Unauthenticated, UnknownProcedure, UnknownTable

LOOPBACK = ("127.0.0.1", "localhost")
"""Names under which a browser may ask. Any other name in the header Host is that of a page which points its own name at 127.0.0.1."""
STATEMENTS = "/sql"
_FOLDER = Path(__file__).parent


class Catalog(Reads, Calls, Streams, Protocol):
    """The part of `SystemCatalog` that the console uses."""


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


def console_app(
    catalog: Catalog,
    codes: SignInCodes,
    site: Site,
    sessions: Sessions | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Starlette:
    """Returns the application. `codes` open sessions."""
    sessions = Sessions() if sessions is None else sessions
    registry = default_registry()
    pages, reader = Pages(registry), Reader(catalog, registry)
    console, actions = _Console(pages, reader, codes, sessions, site, now), ActionPages(pages, reader, catalog)
    system = SystemPages(pages, reader, registry)
    return Starlette(
        routes=[
            Route("/", console.overview, name="overview"),
            Route("/tables/{database_name}/{table_name}", console.table, name="table"),
            Route("/rounds/{round_id}", console.round, name="round"),
            Route("/actions", actions.list, name="actions"),
            Route("/actions/{procedure}", actions.form, name="action"),
            form_route("/actions/{procedure}/check", actions.check, "check_action"),
            form_route("/actions/{procedure}/perform", actions.perform, "perform_action"),
            *list_routes(pages, reader),
            *help_routes(pages),
            Route(STATEMENTS, SqlPage(pages, StatementRunner(catalog, registry)).show, name="sql"),
            Route("/system", system.list, name="system"),
            Route("/system/{table}", system.table, name="system_table"),
            Route("/changes", LiveStreams(reader, sessions).stream, name="changes"),
            Route(SIGN_IN, console.sign_in_page, name="sign_in"),
            Route(f"{SIGN_IN}/{{code}}", console.sign_in, name="sign_in_with_code"),
            form_route("/sign-out", console.sign_out, "sign_out"),
            Mount(STATIC, StaticFiles(directory=_FOLDER / "static"), name="static"),
        ],
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(TrustedHostMiddleware, allowed_hosts=list(site.hosts), www_redirect=False),
            Middleware(RequireSession, sessions=sessions, cookie_name=site.cookie),
            Middleware(LimitRates, sign_in=SIGN_IN, static=STATIC, statements=STATEMENTS),
        ],
        exception_handlers={LakewardError: console.error, HTTPException: console.http_error},
    )


class _Console:
    """The endpoints."""

    def __init__(
        self, pages: Pages, reader: Reader, codes: SignInCodes, sessions: Sessions, site: Site, now: Callable[[], datetime]
    ) -> None:
        self._pages = pages
        self._reader = reader
        self._codes = codes
        self._sessions = sessions
        self._site = site
        self._now = now

    async def overview(self, request: Request) -> Response:
        page = await run_in_threadpool(overview, self._reader, Search.of(request.query_params), self._now())
        return self._pages.page(request, "overview.html", {"page": page, "search": page.search})

    async def table(self, request: Request) -> Response:
        names = request.path_params
        page = await run_in_threadpool(table_page, self._reader, names["database_name"], names["table_name"])
        return self._pages.page(request, "table.html", {"page": page, "status": page.status})

    async def round(self, request: Request) -> Response:
        page = await run_in_threadpool(round_page, self._reader, request.path_params["round_id"])
        if page is None:
            raise HTTPException(404, "There is no such round. The page of a table lists its newest rounds.")
        return self._pages.page(request, "round.html", {"page": page, "round": page.round})

    async def sign_in_page(self, request: Request) -> Response:
        return self._pages.page(request, "sign_in.html", {"command": self._site.command})

    async def sign_in(self, request: Request) -> Response:
        """Exchanges the code for a session. The page then leaves the address with the code.

        It is a page and not a redirect, because a browser sends no strict cookie with a redirect that begins on another site.
        """
        caller = self._codes.take(request.path_params["code"])
        if caller is None:
            return self._pages.page(request, "sign_in.html", {"is_void": True, "command": self._site.command}, 403)
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
