"""Serves the console over HTTP on the loopback address, until the process gets SIGINT or SIGTERM."""

from __future__ import annotations

import socket

import uvicorn
from starlette.types import ASGIApp

from tiering.errors import SetupError

HOST = "127.0.0.1"
MAX_CONNECTIONS = 64
"""Further requests get 503. A browser opens six connections."""


def bind(port: int) -> socket.socket:
    """Returns a socket that listens on the port of the loopback address; 0 picks a free one. Raises SetupError."""
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise SetupError(
            f"port {port} cannot be had for the console: {error.strerror}", hint="Choose another --port; 0 picks a free one."
        ) from error


def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Serves until a signal ends it. The log has no addresses of pages, because a sign-in link is one."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        lifespan="off",
    )
    uvicorn.Server(config).run(sockets=[listening])
