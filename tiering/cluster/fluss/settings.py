"""What the command line says of a Fluss cluster, as text by name: to the coordinator, and from it to tierers. No secrets are in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from tiering.errors import InvalidArgument, SetupError

BOOTSTRAP_SERVERS = "bootstrap.servers"
CLUSTER_ID = "cluster-id"
MODE = "mode"
EXCLUSIVE, SHARED = "exclusive", "shared"
MODES = (EXCLUSIVE, SHARED)
DEFAULT_MODE = SHARED
USERNAME_VARIABLE = "FLUSS_USERNAME"
PASSWORD_VARIABLE = "FLUSS_PASSWORD"  # noqa: S105
"""Of each process its own: user and password never travel."""
CLUSTER_ID_LIMIT = 200


@dataclass(frozen=True)
class FlussSettings:
    """Where the cluster is, what it is called for ever, and whether this deployment is its only tiering service."""

    bootstrap_servers: tuple[str, ...]
    cluster_id: str
    mode: str = DEFAULT_MODE

    def as_text(self) -> dict[str, str]:
        """The inverse of `read_settings`."""
        return {BOOTSTRAP_SERVERS: ",".join(self.bootstrap_servers), CLUSTER_ID: self.cluster_id, MODE: self.mode}


def read_settings(settings: Mapping[str, str]) -> FlussSettings:
    """Raises SetupError without address or cluster id, InvalidArgument for a value that cannot be."""
    cluster_id = settings.get(CLUSTER_ID, "").strip()
    if not cluster_id:
        raise SetupError(
            "a Fluss cluster has no name of its own, and none was given",
            hint="Name it with --fluss-cluster-id, such as --fluss-cluster-id sales-production. It is written into every lake table and "
            "never changes.",
        )
    if len(cluster_id) > CLUSTER_ID_LIMIT or not cluster_id.isprintable():
        raise InvalidArgument(f"the cluster id {cluster_id[:60]!r} is too long or holds a control character")
    mode = settings.get(MODE, DEFAULT_MODE)
    if mode not in MODES:
        raise InvalidArgument(f"--fluss-mode is {mode[:60]!r}", hint=f"It may be: {', '.join(MODES)}.")
    return FlussSettings(read_servers(settings.get(BOOTSTRAP_SERVERS, "")), cluster_id, mode)


def read_servers(text: str) -> tuple[str, ...]:
    """`HOST:PORT[,HOST:PORT]` as single addresses. Raises InvalidArgument naming the one that is none."""
    servers = tuple(part.strip() for part in text.split(",") if part.strip())
    for server in servers:
        host, colon, port = server.rpartition(":")
        if not colon or not host.strip("[]") or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
            raise InvalidArgument(f"--fluss {server[:100]!r} is not of the form HOST:PORT", hint="Such as --fluss 10.0.0.5:9123.")
    if not servers:
        raise InvalidArgument("--fluss names no server", hint="Such as --fluss 10.0.0.5:9123.")
    return servers


def username() -> str | None:
    """The user of this process; None = the cluster wants no login."""
    return os.environ.get(USERNAME_VARIABLE) or None
