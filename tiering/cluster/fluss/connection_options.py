"""Connection options of a Fluss cluster. They can be pickled for executors; the password is never part of them.

The password is read from the environment variable `FLUSS_PASSWORD` where a connection logs in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from tiering.errors import InvalidArgument, SetupError

PASSWORD_VARIABLE = "FLUSS_PASSWORD"
MAX_PORT = 65_535


@dataclass(frozen=True, order=True)
class ServerAddress:
    """Host and port of one server."""

    host: str
    port: int

    @staticmethod
    def parse(text: str) -> ServerAddress:
        """Parses `HOST:PORT`, with an IPv6 host in brackets. Raises InvalidArgument."""
        host, colon, port = text.strip().rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if (
            not colon
            or not host
            or (":" in host and not bracketed)
            or not (port.isascii() and port.isdigit() and 0 < int(port) <= MAX_PORT)
        ):
            raise InvalidArgument(f"{text!r} is not the address of a server", hint="Write HOST:PORT, for example fluss.example.org:9123.")
        return ServerAddress(host[1:-1] if bracketed else host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class FlussConnection:
    """The servers of a cluster, the user, and timeouts."""

    bootstrap_servers: tuple[str, ...]
    """`HOST:PORT` of some of its servers; the others are learned from them."""
    username: str | None = None
    """User for SASL/PLAIN; None if the cluster requires no login."""
    connect_timeout_s: float = 10.0
    """Timeout for the connection, and again for each answer until the connection can be used."""
    request_timeout_s: float = 30.0
    """Timeout for one answer, as in Fluss's own clients."""
    patience_s: float = 10.0
    """Longest time for which an idempotent call is retried while servers are unavailable."""

    @staticmethod
    def parse(servers: str, username: str | None = None) -> FlussConnection:
        """Parses `HOST:PORT[,HOST:PORT]`. Raises InvalidArgument."""
        texts = [text for text in servers.split(",") if text.strip()]
        if not texts:
            raise InvalidArgument("no server of the Fluss cluster is named", hint="Write HOST:PORT[,HOST:PORT].")
        return FlussConnection(tuple(str(ServerAddress.parse(text)) for text in texts), username or None)

    @property
    def bootstrap(self) -> tuple[ServerAddress, ...]:
        """Returns the servers that are asked first. Raises InvalidArgument."""
        return tuple(ServerAddress.parse(server) for server in self.bootstrap_servers)

    def password(self, environment: Mapping[str, str] = os.environ) -> str:
        """Returns the password of `username` from the environment. Raises SetupError."""
        password = environment.get(PASSWORD_VARIABLE)
        if not password:
            raise SetupError(
                f"there is no password for the Fluss user {self.username!r}",
                hint=f"Set the environment variable {PASSWORD_VARIABLE} of this process (and of Spark's executors).",
            )
        return password
