"""The list of cluster kinds, and their protocol. A new kind is a folder beside `embedded/` with a `ClusterKind`, and one line here.

The users of a kind are the coordinator, which hosts the cluster; a tierer, which connects to it; a command that writes to it; a command
that reads its folder while no coordinator runs; and the executors' processes, which import its readers before their first task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tiering.cluster.base import ClusterOwner, ReadOnlyCluster, SplitSource
from tiering.cluster.writable import WritableCluster
from tiering.errors import SetupError
from tiering.model.tables import TableInfo

if TYPE_CHECKING:
    import grpc.aio

STATE_URL = "state.url"
"""A setting that every kind's `host` gets: the URL of the database with the coordinator's state. It is absent if the state is in the
coordinator's folder. A kind stores its own state in the same database, so that another coordinator finds it.
"""

NO_PROPERTIES: Mapping[str, str] = {}


@dataclass(frozen=True)
class HostedCluster:
    """The coordinator's cluster, and the function that adds its services to the coordinator's server.

    `add_to_server` is None for a kind that has servers of its own. Tierers connect with `properties`; every user may see them.
    """

    owner: ClusterOwner
    add_to_server: Callable[[grpc.aio.Server], None] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterAddress:
    """The address of the cluster for a tierer: the coordinator's URI, the cluster's id, and the properties of the `HostedCluster`."""

    uri: str
    cluster_id: str
    properties: Mapping[str, str] = field(default_factory=dict)


class ClusterKind(Protocol):
    """The protocol of a cluster kind. Each function imports its modules when it is called."""

    def host(
        self, folder: Path, settings: Mapping[str, str], check_lake: Callable[[TableInfo], None]
    ) -> AbstractContextManager[HostedCluster]:
        """Opens the coordinator's cluster for the time of the context. The cluster keeps its files in `folder`, beside the coordinator's
        state.

        `settings` are this kind's settings from the command line; empty for a kind without settings. `check_lake` raises BadRequest for a
        table that its lake cannot hold. Raises SetupError.
        """

    def connect(self, address: ClusterAddress) -> SplitSource:
        """Returns the cluster for a tierer; connects on first use. Raises SetupError if this machine lacks a requirement."""

    def open_writer(self, address: ClusterAddress) -> AbstractContextManager[WritableCluster]:
        """Opens the cluster for writing, for the time of the context. Raises SetupError if this machine lacks a requirement."""

    def is_in(self, folder: Path) -> bool:
        """Returns whether `host` of this kind has written `folder`."""

    def open_read_only(self, folder: Path, properties: Mapping[str, str] = NO_PROPERTIES) -> ReadOnlyCluster:
        """Returns the cluster of a data folder without a running coordinator. Raises SetupError if there is none, or one of another
        version.

        `properties` are those of a `HostedCluster`, from the user or the coordinator; they have precedence over the folder. The folder may
        come from another person, so no password is sent to an address that only the folder names.
        """

    def preload(self) -> None:
        """Imports the modules that `SplitReader`s of this kind need. Starts no thread or process, because the process forks afterwards."""


EMBEDDED = "embedded"
"""The name of the cluster kind that is part of Lakeward; its rows are in the data folder."""

FLUSS = "fluss"
"""The name of the kind for Apache Fluss, a cluster that runs as a service of its own."""

BUILT_IN: Mapping[str, str] = {
    EMBEDDED: "tiering.cluster.embedded.kind:CLUSTER_KIND",
    FLUSS: "tiering.cluster.fluss.kind:CLUSTER_KIND",
}
"""The place of the `ClusterKind` of each kind, by name. It is imported when it is used."""


def cluster_kind(name: str) -> ClusterKind:
    """Returns the kind with this name. Raises SetupError for a kind that this version does not know."""
    if name not in BUILT_IN:
        raise SetupError(
            f"this version knows no cluster of kind {name!r}",
            hint=f"Use the coordinator's version, or one of these kinds: {', '.join(sorted(BUILT_IN))}.",
        )
    module, _, attribute = BUILT_IN[name].partition(":")
    kind: ClusterKind = getattr(import_module(module), attribute)
    return kind


def kind_in(folder: Path) -> str:
    """Returns the kind of the cluster in `folder`, a data folder's cluster folder; that of a new data folder if there is no cluster yet."""
    return next((name for name in BUILT_IN if cluster_kind(name).is_in(folder)), EMBEDDED)


def check_folder(folder: Path, kind: str) -> None:
    """Raises SetupError for a folder with a cluster of another kind, because the coordinator's state belongs to that cluster."""
    present = kind_in(folder)
    if present != kind and cluster_kind(present).is_in(folder):
        raise SetupError(
            f"the data folder of {folder} belongs to a cluster of kind {present!r}, not {kind!r}",
            hint="Start it with the same options as before (with --fluss for a Fluss cluster), or name another data folder with --data.",
        )


def preload_readers() -> None:
    """Imports the modules that `SplitReader`s of every kind need, before the process forks."""
    for name in BUILT_IN:
        cluster_kind(name).preload()
