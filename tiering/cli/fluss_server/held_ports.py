"""Ports that no other program can take before a server listens on them, nor between two runs of that server."""

from __future__ import annotations

import platform
import socket
from typing import Self

from tiering.wire.channel import host_and_port

LOOPBACK = "127.0.0.1"


class HeldPort:
    """A free port that stays bound by this process until `close`. Connections to it are refused until a server listens there.

    A server that sets SO_REUSEADDR before it binds (as Java, gRPC and PostgreSQL do) can listen on the held port, also after a restart.
    Linux allows that because this socket never listens. Linux gives a held port to no server that asks for any free port, and to no
    outgoing connection. Other systems do not let the server in, so the port is given back at once there.
    """

    def __init__(self, host: str = LOOPBACK) -> None:
        self.host = host
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.bind((host, 0))
        self.number: int = self._socket.getsockname()[1]
        # Set after bind: with it, bind could choose a port that another socket of this kind has.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if platform.system() != "Linux":
            self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the port back. Can be repeated."""
        self._socket.close()

    @property
    def address(self) -> str:
        """`HOST:PORT`."""
        return host_and_port(self.host, self.number)
