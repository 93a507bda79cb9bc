"""Settings of a Fluss cluster from the command line, as text by name. The coordinator sends them to tierers; they contain no secrets.

A connection's options can be pickled for executors. The password is read from the environment variable `FLUSS_PASSWORD` where a connection
logs in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from tiering.cluster.fluss.remote_storage import REMOTE_FILE_PROPERTIES, check_storage
from tiering.errors import InvalidArgument, SetupError
from tiering.model.assignments import ServiceMode

BOOTSTRAP_SERVERS = "bootstrap.servers"
CLUSTER_ID = "cluster-id"
MODE = "mode"
AUTO_COMPACTION = "auto-compaction"
AUTO_EXPIRE_SNAPSHOT = "auto-expire-snapshot"
DEFAULT_MODE = ServiceMode.SHARED
USERNAME_VARIABLE = "FLUSS_USERNAME"
"""Variable with the user's name. Each process has its own user and `FLUSS_PASSWORD`, which are never sent."""
CLUSTER_ID_LIMIT = 200


@dataclass(frozen=True)
class UpkeepDefaults:
    """Defaults for tables without these options: whether rounds merge small files, and whether lake snapshots expire. As in Fluss, both are
    off.
    """

    auto_compaction: bool = False
    """Default of `table.datalake.auto-compaction`."""
    auto_expire_snapshot: bool = False
    """Default of `table.datalake.auto-expire-snapshot`."""

    def as_text(self) -> dict[str, str]:
        """Returns the settings that differ from Fluss's own defaults."""
        chosen = {AUTO_COMPACTION: self.auto_compaction, AUTO_EXPIRE_SNAPSHOT: self.auto_expire_snapshot}
        return {name: "true" for name, is_on in chosen.items() if is_on}


FLUSS_DEFAULTS = UpkeepDefaults()


@dataclass(frozen=True)
class FlussSettings:
    """The address of the cluster, its permanent name, and whether this deployment is its only tiering service."""

    bootstrap_servers: tuple[str, ...]
    cluster_id: str
    mode: ServiceMode = DEFAULT_MODE
    storage: Mapping[str, str] = field(default_factory=dict)
    """Properties of its remote storage for `open_remote`; without secrets."""
    upkeep: UpkeepDefaults = FLUSS_DEFAULTS

    def as_text(self) -> dict[str, str]:
        """Returns the text form that `read_settings` reads."""
        servers = ",".join(self.bootstrap_servers)
        return {BOOTSTRAP_SERVERS: servers, CLUSTER_ID: self.cluster_id, MODE: self.mode.value, **self.storage, **self.upkeep.as_text()}


def read_settings(settings: Mapping[str, str]) -> FlussSettings:
    """Reads settings. Raises SetupError without address or cluster id, InvalidArgument for an invalid value."""
    cluster_id = settings.get(CLUSTER_ID, "").strip()
    if not cluster_id:
        raise SetupError(
            "no name was given for the Fluss cluster, which has none itself",
            hint="Set --fluss-cluster-id, for example --fluss-cluster-id sales-production. The name is written into every lake table and "
            "never changes.",
        )
    if len(cluster_id) > CLUSTER_ID_LIMIT or not cluster_id.isprintable():
        raise InvalidArgument(f"the cluster id {cluster_id[:60]!r} is too long or contains a control character")
    mode = settings.get(MODE) or DEFAULT_MODE
    if mode not in tuple(ServiceMode):
        raise InvalidArgument(f"--fluss-mode is {mode[:60]!r}", hint=f"It may be: {', '.join(ServiceMode)}.")
    servers = FlussConnection.parse(settings.get(BOOTSTRAP_SERVERS, "")).bootstrap_servers
    storage = {name: settings[name] for name in REMOTE_FILE_PROPERTIES if settings.get(name)}
    check_storage(storage)
    upkeep = UpkeepDefaults(*(settings.get(name) == "true" for name in (AUTO_COMPACTION, AUTO_EXPIRE_SNAPSHOT)))
    return FlussSettings(servers, cluster_id, ServiceMode(mode), storage, upkeep)


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
