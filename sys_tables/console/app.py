"""The web application: its routes, its forms, and its errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates

from sys_tables.console import cells
from sys_tables.console.middleware import SIGN_IN, STATIC, RequireSession, SecurityHeaders
from sys_tables.console.overview import PROMISES, SORTS, Search, overview, promise_of
from sys_tables.console.reader import Reader, Reads
from sys_tables.console.signing_in import SESSION_SECONDS, Session, Sessions, SignInCode, is_token_of
from sys_tables.console.table_page import table_page
from sys_tables.registry import default_registry
from tiering.errors import AccessDenied, BadRequest, LakewardError, UnknownTable
from tiering.model.states import LASTING

LOOPBACK = ("127.0.0.1", "localhost")
"""Names under which a browser may ask. Any other name in the header Host is that of a page which points its own name at 127.0.0.1."""
MAX_FORM_BYTES = 64 << 10
_FOLDER = Path(__file__).parent
Form = Mapping[str, str]


def console_app(reads: Reads, code: SignInCode, port: int, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Starlette:
    """Returns the application. `code` opens sessions. The port is part of the cookie's name, because browsers ignore it otherwise."""
    sessions, cookie_name = Sessions(), f"lakeward-console-{port}"
    console = _Console(Reader(reads, default_registry()), code, sessions, cookie_name, now)
    return Starlette(
        routes=[
            Route("/", console.overview, name="overview"),
            Route("/tables/{database_name}/{table_name}", console.table, name="table"),
            Route(SIGN_IN, console.sign_in_page, name="sign_in"),
            Route(f"{SIGN_IN}/{{code}}", console.sign_in, name="sign_in_with_code"),
            form_route("/sign-out", console.sign_out, "sign_out"),
            Mount(STATIC, StaticFiles(directory=_FOLDER / "static"), name="static"),
        ],
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(TrustedHostMiddleware, allowed_hosts=list(LOOPBACK), www_redirect=False),
            Middleware(RequireSession, sessions=sessions, cookie_name=cookie_name),
        ],
        exception_handlers={LakewardError: console.error, HTTPException: console.http_error},
    )


def form_route(path: str, handle: Callable[[Request, Form], Awaitable[Response]], name: str) -> Route:
    """Returns the route of a form. Only a POST from a page of the same session reaches `handle`."""

    async def endpoint(request: Request) -> Response:
        form = await _form(request)
        session: Session = request.state.session
        if not is_token_of(session, form.get("csrf_token", "")):
            raise HTTPException(403, "This form does not come from a page of this session. Go back, reload the page and try again.")
        return await handle(request, form)

    return Route(path, endpoint, methods=["POST"], name=name)


async def _form(request: Request) -> Form:
    """Returns the fields of a form. Raises HTTPException for a body that is too long or not a form."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise HTTPException(413, "The form is too long.")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100))
    except ValueError as error:
        raise HTTPException(400, "The form cannot be read.") from error


class _Console:
    """The endpoints."""

    def __init__(self, reader: Reader, code: SignInCode, sessions: Sessions, cookie_name: str, now: Callable[[], datetime]) -> None:
        self._reader = reader
        self._code = code
        self._sessions = sessions
        self._cookie_name = cookie_name
        self._now = now
        self._templates = Jinja2Templates(_FOLDER / "templates")
        self._templates.env.globals |= {"promise_of": promise_of, "states": LASTING, "promises": PROMISES, "sorts": list(SORTS)}
        self._templates.env.filters |= {"shown": cells.shown, "label": cells.label}
        self._templates.env.tests |= {"time": cells.is_time, "numeric": cells.is_number}

    async def overview(self, request: Request) -> Response:
        page = await run_in_threadpool(overview, self._reader, Search.of(request.query_params), self._now())
        return self._page(request, "overview.html", {"page": page, "search": page.search})

    async def table(self, request: Request) -> Response:
        names = request.path_params
        page = await run_in_threadpool(table_page, self._reader, names["database_name"], names["table_name"])
        return self._page(request, "table.html", {"page": page, "status": page.status})

    async def sign_in_page(self, request: Request) -> Response:
        return self._page(request, "sign_in.html", {})

    async def sign_in(self, request: Request) -> Response:
        """Exchanges the code for a session. The page then leaves the address with the code.

        It is a page and not a redirect, because a browser sends no strict cookie with a redirect that begins on another site.
        """
        if not self._code.take(request.path_params["code"]):
            return self._page(request, "sign_in.html", {"is_void": True}, 403)
        response = self._page(request, "signed_in.html", {})
        response.set_cookie(self._cookie_name, self._sessions.open(), SESSION_SECONDS, httponly=True, samesite="strict")
        return response

    async def sign_out(self, request: Request, form: Form) -> Response:
        self._sessions.close(request.state.session)
        response = RedirectResponse(SIGN_IN, status_code=303)
        response.delete_cookie(self._cookie_name, httponly=True, samesite="strict")
        return response

    async def error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, LakewardError)
        return self._page(request, "error.html", {"message": error.message, "hint": error.hint}, _status_code(error))

    async def http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return self._page(request, "error.html", {"message": error.detail, "hint": ""}, error.status_code)

    def _page(self, request: Request, template: str, content: dict[str, Any], status_code: int = 200) -> Response:
        session: Session | None = getattr(request.state, "session", None)
        return self._templates.TemplateResponse(request, template, {"session": session, **content}, status_code)


def _status_code(error: LakewardError) -> int:
    match error:
        case UnknownTable():
            return 404
        case AccessDenied():
            return 403
        case BadRequest():
            return 400
    return 503
