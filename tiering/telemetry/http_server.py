"""Serves `/metrics`, `/healthz` and `/readyz` over HTTP, in its own threads. A scrape never runs in the process's event loop.

A scrape shows the tables that its bearer token may describe. The process that starts the server decides this (`AccessOf`).

The server is read-only and bounded. It closes each connection after `CONNECTION_SECONDS`, and makes one scrape after the other. Connections
without a request give way to newer ones, and scrapes have their own limit. So a silent or slow client delays no probe.
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
"""Greatest number of connections without a request. One more closes the oldest of them. A probe sends its request at once."""

SCRAPES = 16
"""Greatest number of scrapes that wait or are sent at a time: more than the number of servers that scrape a process."""

CONNECTION_SECONDS = 30.0
"""Seconds after which a connection is closed, however slowly its client reads or writes."""

Check = Callable[[], str | None]
"""Returns what is wrong; None if all is well."""

AccessOf = Callable[[str | None, str], Access]
"""Returns what a scrape with this bearer token (or without one) from that address may see. Raises Unauthenticated for an invalid token."""


def everything(bearer: str | None, peer: str) -> Access:
    """Returns access to everything: for a process without `--auth`, or whose metrics name no tables."""
    return EVERYTHING


def new_registry() -> CollectorRegistry:
    """Returns a registry with prometheus_client's metrics of the process: memory, CPU, open files, garbage collection."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class TelemetryServer:
    """Serves from its construction until `close`. Port 0 chooses a free port. Raises SetupError if the address is not available."""

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
        """The URL of the metrics."""
        return f"http://{self.address}/metrics"

    def close(self) -> None:
        """Stops serving. Running scrapes end normally. A second call does nothing."""
        self._server.shutdown()
        self._server.server_close()


class _Pages:
    """Makes the answer for each path: status, content type, body."""

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
        """Connections without a request, the oldest first."""
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Binds without the look-up of the host name that http.server does, which can take long."""
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
        """Records that the connection has sent its request or has ended, so that it does not give way to others."""
        with self._guard:
            self._silent.pop(request, None)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        end = threading.Timer(CONNECTION_SECONDS, _cut_off, (request,))
        end.daemon = True
        try:
            try:
                end.start()
            except RuntimeError:  # no memory for the timer's thread, so a slow client would never be cut off
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
        """Writes nothing, because lines about scrapes would fill the log."""
