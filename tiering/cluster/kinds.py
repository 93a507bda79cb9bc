"""What a kind of cluster is: how each of its four users gets at it. Which kinds there are is in `registry`.

The users are the coordinator, which hosts it; a tierer, which connects to it; whoever reads its folder while nothing runs; and the
executors' processes, which import its readers ahead of work.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc.aio

from tiering.cluster.base import ClusterOwner, ReadOnlyCluster, SplitSource
from tiering.model.tables import TableInfo


@dataclass(frozen=True)
class HostedCluster:
    """The coordinator's cluster, and how it is served on the coordinator's port; None for a kind that has servers of its own."""

    owner: ClusterOwner
    add_to_server: Callable[[grpc.aio.Server], None] | None = None


class ClusterKind(Protocol):
    """What every kind offers. Each function imports what it needs when it is called."""

    def host(self, folder: Path, check_lake: Callable[[TableInfo], None]) -> AbstractContextManager[HostedCluster]:
        """The coordinator's own cluster, open while the context is; `folder` is for what it keeps beside the coordinator's state.

        `check_lake` raises BadRequest for a table that its lake could not hold. Raises SetupError.
        """
        ...

    def connect(self, uri: str) -> SplitSource:
        """The cluster as a tierer of the coordinator at `uri` reads it; connects on first use."""
        ...

    def open_read_only(self, folder: Path) -> ReadOnlyCluster:
        """The cluster of a data folder that nobody needs to serve. Raises SetupError: there is none, or of another version."""
        ...

    def preload(self) -> None:
        """Imports what `SplitReader`s of this kind need, and starts nothing: the process forks afterwards."""
        ...
