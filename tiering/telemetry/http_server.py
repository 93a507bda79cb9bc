"""`/metrics`, `/healthz` and `/readyz` over HTTP, from threads of their own: a scrape never runs in the process's event loop.

A scrape shows the tables that its bearer token may know of; what it may, whoever starts the server says (`AccessOf`).

Read-only, and bounded: each connection is gone after `CONNECTION_SECONDS`, and one scrape is made after the other. Connections that have
sent no request yet give way to newer ones, and scrapes have a number of their own: a silent or slow client keeps no probe from its answer.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import structlog
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder

from tiering.access.authentication import AUTHORIZATION, bearer_token
from tiering.access.grants import EVERYTHING, Access, limited_to
from tiering.errors import SetupError, Unauthenticated
from tiering.wire.channel import host_and_port

_log = structlog.get_logger(__name__)

SILENT = 64
"""Connections that have sent no request yet. A probe sends its own at once; with one more the oldest of them is closed."""

SCRAPES = 16
"""Scrapes that wait or are sent at a time: more than the servers that scrape a process."""

CONNECTION_SECONDS = 30.0
"""A connection that is not over by then is closed, however slowly its client reads or writes."""

Check = Callable[[], str | None]
"""Says why something is not as it should be; None = it is."""

AccessOf = Callable[[str | None, str], Access]
"""What a scrape may see that shows this bearer token, or none, from that address. Raises Unauthenticated for a token that is none."""


def everything(bearer: str | None, peer: str) -> Access:
    """Of a process that asks nobody who they are, or whose metrics name no tables."""
    return EVERYTHING


def new_registry() -> CollectorRegistry:
    """A registry with what prometheus_client knows of the process: memory, CPU, open files, garbage collection."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class TelemetryServer:
    """Serves from its construction until `close`. Port 0 picks a free one. Raises SetupError for an address that cannot be had."""

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, not_alive: Check, not_ready: Check, access_of: AccessOf = everything
    ) -> None:
        pages = _Pages(registry, not_alive, not_ready, access_of)
        try:
            self._server = _Server(host.strip("[]"), port, pages)
        except (OSError, OverflowError) as error:
            raise SetupError(
                f"port {port} on {host} cannot be had for metrics: {error}", hint="Choose another --metrics-port; 0 picks a free one."
            ) from error
        self.address = host_and_port(host, self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, args=(0.2,), name="metrics", daemon=True).start()

    @property
    def url(self) -> str:
        """Of the metrics."""
        return f"http://{self.address}/metrics"

    def close(self) -> None:
        """Answers nobody any more; ends no scrape under way. Harmless to repeat."""
        self._server.shutdown()
        self._server.server_close()


class _Pages:
    """What the paths answer: status, content type, body."""

    def __init__(self, registry: CollectorRegistry, not_alive: Check, not_ready: Check, access_of: AccessOf) -> None:
        self._registry = registry
        self._access_of = access_of
        self._checks = {"/healthz": not_alive, "/readyz": not_ready}
        self._scraping = threading.Lock()
        self.scrapes = threading.BoundedSemaphore(SCRAPES)

    def answer(self, path: str, headers: Message, peer: str) -> tuple[int, str, bytes]:
        if path == "/metrics":
            try:
                bearer = bearer_token((AUTHORIZATION, value) for value in headers.get_all(AUTHORIZATION, []))
                access = self._access_of(bearer, peer)
            except Unauthenticated as error:
                return 401, _TEXT, f"{error.message} {error.hint}\n".encode()
            encode, content_type = choose_encoder(headers.get("Accept", ""))
            with self._scraping, limited_to(access):
                return 200, content_type, encode(self._registry)
        check = self._checks.get(path)
        if check is None:
            return 404, _TEXT, b"there are /metrics, /healthz and /readyz\n"
        problem = check()
        return (200, _TEXT, b"ok\n") if problem is None else (503, _TEXT, f"{problem}\n".encode())


_TEXT = "text/plain; charset=utf-8"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 2 * SILENT

    def __init__(self, host: str, port: int, pages: _Pages) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.pages = pages
        self._guard = threading.Lock()
        self._silent: dict[socket.socket, None] = {}
        """The oldest first."""
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """As of any TCP server: http.server's own looks its name up, which may take a while."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            oldest = next(iter(self._silent)) if len(self._silent) >= SILENT else None
            if oldest is not None:
                del self._silent[oldest]
            self._silent[request] = None
        if oldest is not None:
            _cut_off(oldest)
        try:
            super().process_request(request, client_address)
        except BaseException:  # no memory for a thread: the base closes the connection
            self.has_asked(request)
            raise

    def has_asked(self, request: Any) -> None:
        """The connection has sent its request, or is over: it gives way to no other."""
        with self._guard:
            self._silent.pop(request, None)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        end = threading.Timer(CONNECTION_SECONDS, _cut_off, (request,))
        end.daemon = True
        try:
            try:
                end.start()
            except RuntimeError:  # no memory for its thread: nobody would cut a slow client off
                self.shutdown_request(request)
                return
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self.has_asked(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.debug("a client of the metrics went away", exc_info=not isinstance(sys.exception(), OSError))


def _cut_off(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "lakeward"
    sys_version = ""
    timeout: ClassVar[float] = CONNECTION_SECONDS

    def do_GET(self) -> None:
        self._send(body=True)

    def do_HEAD(self) -> None:
        self._send(body=False)

    def _send(self, *, body: bool) -> None:
        self.server.has_asked(self.connection)
        if self.path.partition("?")[0] != "/metrics":
            self._answer(body=body)
        elif self.server.pages.scrapes.acquire(blocking=False):
            try:
                self._answer(body=body)
            finally:
                self.server.pages.scrapes.release()
        else:
            self.send_error(503, "too many scrapes at a time")

    def _answer(self, *, body: bool) -> None:
        try:
            status, content_type, content = self.server.pages.answer(self.path.partition("?")[0], self.headers, self.client_address[0])
        except Exception:
            _log.exception("a page of the metrics could not be made")
            status, content_type, content = 500, _TEXT, b"this page could not be made; the log says why\n"
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Writes nothing: a line a scrape would be most of a log."""
