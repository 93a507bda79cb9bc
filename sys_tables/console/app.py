"""The web application: its routes, its forms, and its errors."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from sys_tables.console.action_pages import ActionPages
from sys_tables.console.actions import Calls
from sys_tables.console.forms import form_route
from sys_tables.console.help.page import help_routes
from sys_tables.console.live import LiveStreams
from sys_tables.console.middleware import SIGN_IN, STATIC, RequireSession, SecurityHeaders
from sys_tables.console.overview import MAX_TEXT, Search, overview, table_names
from sys_tables.console.pages import Pages
from sys_tables.console.reader import Reader, Reads
from sys_tables.console.service.identity_provider import IdentityProvider
from sys_tables.console.service.rates import LimitRates
from sys_tables.console.sign_in_pages import SignInPages, Site
from sys_tables.console.signing_in import Sessions, SignInCodes
from sys_tables.console.sql.page import SqlPage
from sys_tables.console.sql.runner import StatementRunner, Streams
from sys_tables.console.system_pages import SystemPages
from sys_tables.console.views.list_pages import list_routes
from sys_tables.console.views.round_page import round_page
from sys_tables.console.views.table_page import shown_rounds, table_page
from sys_tables.registry import default_registry
from tiering.errors import LakewardError

STATEMENTS = "/sql"
_FOLDER = Path(__file__).parent


class Catalog(Reads, Calls, Streams, Protocol):
    """The part of `SystemCatalog` that the console uses."""


def console_app(
    catalog: Catalog,
    codes: SignInCodes,
    site: Site,
    sessions: Sessions | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    provider: IdentityProvider | None = None,
) -> Starlette:
    """Returns the application. `codes` open sessions, and so does the identity provider of a service that has one."""
    sessions = Sessions() if sessions is None else sessions
    registry = default_registry()
    pages, reader = Pages(registry), Reader(catalog, registry)
    console, actions = _Console(pages, reader, now), ActionPages(pages, reader, catalog)
    signing_in = SignInPages(pages, codes, sessions, site, provider)
    system = SystemPages(pages, reader, registry)
    return Starlette(
        routes=[
            Route("/", console.overview, name="overview"),
            Route("/tables/{database_name}/{table_name}", console.table, name="table"),
            Route("/table-names", console.table_names, name="table_names"),
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
            *signing_in.routes(),
            Mount(STATIC, StaticFiles(directory=_FOLDER / "static"), name="static"),
        ],
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(TrustedHostMiddleware, allowed_hosts=list(site.hosts), www_redirect=False),
            Middleware(RequireSession, sessions=sessions, cookie_name=site.cookie),
            Middleware(LimitRates, sign_in=SIGN_IN, static=STATIC, statements=STATEMENTS),
        ],
        exception_handlers={LakewardError: signing_in.error, HTTPException: signing_in.http_error, Exception: signing_in.failure},
    )


class _Console:
    """The endpoints."""

    def __init__(self, pages: Pages, reader: Reader, now: Callable[[], datetime]) -> None:
        self._pages = pages
        self._reader = reader
        self._now = now

    async def overview(self, request: Request) -> Response:
        page = await run_in_threadpool(overview, self._reader, Search.of(request.query_params), self._now())
        return self._pages.page(request, "overview.html", {"page": page, "search": page.search})

    async def table(self, request: Request) -> Response:
        names = request.path_params
        rounds = shown_rounds(request.query_params)
        page = await run_in_threadpool(table_page, self._reader, names["database_name"], names["table_name"], rounds)
        return self._pages.page(request, "table.html", {"page": page, "status": page.status})

    async def table_names(self, request: Request) -> Response:
        """Returns the options of a field for the name of a table. One parameter is the text in the field, under the field's name;
        `privilege` may be another one.
        """
        parameters = dict(request.query_params)
        privilege = parameters.pop("privilege", "")[:MAX_TEXT]
        text = next(iter(parameters.values()), "").strip()[:MAX_TEXT]
        names = await run_in_threadpool(table_names, self._reader, text, privilege)
        return self._pages.page(request, "table_names.html", {"names": names})

    async def round(self, request: Request) -> Response:
        page = await run_in_threadpool(round_page, self._reader, request.path_params["round_id"])
        if page is None:
            raise HTTPException(404, "There is no such round. The page of a table lists its newest rounds.")
        return self._pages.page(request, "round.html", {"page": page, "round": page.round})
