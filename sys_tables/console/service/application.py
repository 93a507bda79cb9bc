"""The console of a service, at the path `/ui`: first a page about the start, on a standby a page about the leader, then the pages.

It reads from the service over the service's own port, with the token of the user who is signed in. So it is one more client of the service.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from urllib.parse import urlsplit

from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sys_tables.console.app import console_app
from sys_tables.console.middleware import SecurityHeaders
from sys_tables.console.service.callers import Caller, CallerCatalog
from sys_tables.console.service.identity_provider import IdentityProvider, ProviderClient
from sys_tables.console.sign_in_pages import ANSWER, Site
from sys_tables.console.signing_in import Sessions, SignInCodes
from tiering.access.client_access import ClientAccess

ROOT = "/ui"


class ServiceConsole:
    """The application of one service. `address` is that of the console in a browser, such as http://127.0.0.1:7717.

    `client` has the settings of the identity provider; None if users sign in with links alone.
    """

    def __init__(self, address: str, port: int, hosts: Sequence[str], client: ProviderClient | None = None) -> None:
        self.url = f"{address}{ROOT}"
        self._scheme = address.partition(":")[0]
        self._host = urlsplit(address).netloc.removesuffix(f":{urlsplit(address).port}")  # an IPv6 address keeps its brackets
        self._site = Site(port, hosts, is_secure=self._scheme == "https")
        self._codes, self._sessions = SignInCodes(), Sessions()
        self._provider = None if client is None else IdentityProvider(replace(client, redirect_address=f"{self.url}{ANSWER}"))
        self._catalog: CallerCatalog | None = None
        self._pages: ASGIApp = SecurityHeaders(_Waiting("The service is starting. This page appears again by itself."))

    def link(self, name: str, token: str | None) -> str:
        """Returns a one-time link for a caller. It is a `ConsoleLink`."""
        return f"{self.url}/sign-in/{self._codes.new(Caller(name, token))}"

    def stand_by(self, leader: str | None) -> None:
        """Shows from now on that this coordinator is a standby. `leader` is the address of the leading coordinator."""
        text = "This coordinator is a standby. " + (
            "No coordinator leads at the moment."
            if leader is None
            else f"The coordinator at {leader} leads. This command opens its console: lakeward console --uri {leader}"
        )
        self._pages = SecurityHeaders(_Waiting(text))

    def lead(self, uri: str, access: ClientAccess) -> None:
        """Shows the pages of the service at `uri` from now on. `access` has the files of TLS."""
        self._catalog = CallerCatalog(uri, access)
        site = replace(self._site, command=f"lakeward console --uri {self._host}:{uri.rpartition(':')[2]} --print")
        self._pages = console_app(self._catalog, self._codes, site, self._sessions, provider=self._provider)

    def close(self) -> None:
        """Ends all sessions, and the connection to the service."""
        self._sessions.close_all()
        if self._catalog is not None:
            self._catalog.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request. The scheme is the one that browsers use: a proxy before the console may have TLS."""
        path = scope.get("path", "")
        if scope["type"] != "http" or path.startswith(f"{ROOT}/"):
            await self._pages({**scope, "root_path": ROOT, "scheme": self._scheme}, receive, send)
        else:
            answer = RedirectResponse(f"{ROOT}/", 303) if path in (ROOT, "/") else Response(status_code=404)
            await SecurityHeaders(answer)(scope, receive, send)


class _Waiting:
    """Answers every request with a text, and with the status of a service that is not available."""

    def __init__(self, text: str) -> None:
        page = f'<!doctype html><html lang="en"><meta http-equiv="refresh" content="2"><title>Lakeward</title><p>{escape(text)}</p></html>'
        self._answer = HTMLResponse(page, 503, {"Retry-After": "2"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, send)
