"""Which kinds of cluster there are. A new kind is one folder beside `embedded/`, and one line here.

A kind says how its four users get at it: the coordinator that hosts it, a tierer that connects to it, whoever reads its folder while
nothing runs, and the executors' processes that import its readers ahead of work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tiering.cluster.base import ReadOnlyCluster, SplitSource
from tiering.cluster.embedded.kind import EmbeddedKind
from tiering.cluster.hosted import HostedCluster
from tiering.errors import SetupError
from tiering.model.tables import TableInfo

EMBEDDED = "embedded"


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


_KINDS: Mapping[str, ClusterKind] = {EMBEDDED: EmbeddedKind()}


def cluster_kind(name: str) -> ClusterKind:
    """The kind of that name. Raises SetupError for one that this version does not know."""
    if name not in _KINDS:
        raise SetupError(
            f"this version knows no cluster of kind {name!r}",
            hint=f"Use the coordinator's version, or one of these kinds: {', '.join(sorted(_KINDS))}.",
        )
    return _KINDS[name]


def preload_readers() -> None:
    """Imports what `SplitReader`s of every kind need, ahead of a fork."""
    for kind in _KINDS.values():
        kind.preload()
