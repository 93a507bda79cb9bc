"""What a kind of cluster is: how each of its users gets at it. Which kinds there are is in `registry`.

The users are the coordinator, which hosts it; a tierer, which connects to it; a command that writes to it; whoever reads its folder
while nothing runs; and the executors' processes, which import its readers ahead of work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tiering.cluster.base import ClusterOwner, ReadOnlyCluster, SplitSource
from tiering.cluster.writable import WritableCluster
from tiering.model.tables import TableInfo

if TYPE_CHECKING:
    import grpc.aio


STATE_URL = "state.url"
"""A setting for every kind's `host`: the database in which the coordinator keeps its state, unless that is its folder. What a kind
remembers goes there as well, so that another coordinator finds it."""

NO_PROPERTIES: Mapping[str, str] = {}


@dataclass(frozen=True)
class HostedCluster:
    """The coordinator's cluster, and how it is served on the coordinator's port; None for a kind that has servers of its own.

    `properties` are what tierers connect with: everybody may see them.
    """

    owner: ClusterOwner
    add_to_server: Callable[[grpc.aio.Server], None] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterAddress:
    """Where a tierer finds the cluster: the coordinator's uri, the cluster's id, and the properties of the `HostedCluster`."""

    uri: str
    cluster_id: str
    properties: Mapping[str, str] = field(default_factory=dict)


class ClusterKind(Protocol):
    """What every kind offers. Each function imports what it needs when it is called."""

    def host(
        self, folder: Path, settings: Mapping[str, str], check_lake: Callable[[TableInfo], None]
    ) -> AbstractContextManager[HostedCluster]:
        """The coordinator's own cluster, open while the context is; `folder` is for what it keeps beside the coordinator's state.

        `settings` are the kind's own, from the command line; none for a kind that needs none. `check_lake` raises BadRequest for a
        table that its lake could not hold. Raises SetupError.
        """
        ...

    def connect(self, address: ClusterAddress) -> SplitSource:
        """The cluster as a tierer reads it; connects on first use. Raises SetupError: this machine lacks what it takes."""
        ...

    def open_writer(self, address: ClusterAddress) -> AbstractContextManager[WritableCluster]:
        """The cluster as it is written to, open while the context is. Raises SetupError: this machine lacks what it takes."""
        ...

    def is_in(self, folder: Path) -> bool:
        """Whether `folder` is one that `host` of this kind has written."""
        ...

    def open_read_only(self, folder: Path, properties: Mapping[str, str] = NO_PROPERTIES) -> ReadOnlyCluster:
        """The cluster of a data folder that nobody needs to serve. Raises SetupError: there is none, or of another version.

        `properties` as in a `HostedCluster`, from the user or the coordinator: they go before what the folder says. Somebody may have
        sent the folder, so no password goes to an address that it alone names.
        """
        ...

    def preload(self) -> None:
        """Imports what `SplitReader`s of this kind need, and starts nothing: the process forks afterwards."""
        ...
