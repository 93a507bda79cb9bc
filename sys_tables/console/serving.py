"""Serves the console over HTTP: until a signal ends the process, or in a thread of a process that has other work."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Sequence

import structlog
import uvicorn
from starlette.types import ASGIApp

from tiering.access.loopback import LOCALHOST, connected_host
from tiering.errors import SetupError

HOST = LOCALHOST
MAX_CONNECTIONS = 64
"""Further requests get 503. A browser opens six connections."""
MAX_SERVICE_CONNECTIONS = 512
"""Requests at once to the console of a service, which has many users."""
STOP_SECONDS = 2
"""Time that requests have to end when the service stops."""

_log = structlog.get_logger(__name__)


def bind(port: int, host: str = HOST, hint: str = "Choose another --port; 0 picks a free one.") -> socket.socket:
    """Returns a socket that listens on the port of the address; port 0 picks a free one. Raises SetupError."""
    address = connected_host(host).strip("[]")
    try:
        return socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    except OSError as error:
        raise SetupError(f"port {port} cannot be had for the console: {error.strerror}", hint=hint) from error


def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Serves until a signal ends it."""
    uvicorn.Server(_config(app, MAX_CONNECTIONS)).run(sockets=[listening])


class ServingThread:
    """Serves an application in a thread until `close`. `tls` None: over HTTP. `proxies` may name the client of a request."""

    def __init__(self, app: ASGIApp, listening: socket.socket, tls: ssl.SSLContext | None = None, proxies: Sequence[str] = ()) -> None:
        self._listening = listening
        self._server = uvicorn.Server(_config(app, MAX_SERVICE_CONNECTIONS, tls, proxies))
        self._thread = threading.Thread(target=self._run, name="console", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the open requests and releases the port."""
        self._server.should_exit = True
        self._thread.join(2 * STOP_SECONDS)
        self._listening.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._listening])
        except Exception:
            _log.exception("the console ended, and the service goes on without it")


def _config(app: ASGIApp, connections: int, tls: ssl.SSLContext | None = None, proxies: Sequence[str] = ()) -> uvicorn.Config:
    """Returns the settings of a server. `proxies`: addresses and networks whose header X-Forwarded-For names the client.

    The log has no addresses of pages, because a sign-in link is one.
    """
    return uvicorn.Config(
        app,
        log_level="warning",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        limit_concurrency=connections,
        lifespan="off",
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_context_factory=None if tls is None else lambda *_: tls,
    )
