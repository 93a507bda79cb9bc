"""Opens the cluster that a command works on: the cluster of a running service, or a Fluss cluster that the command names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from tiering.cli.service_lake import service_config
from tiering.cli.terminal.cluster_options import read_cluster
from tiering.cluster.base import SplitSource
from tiering.cluster.registry import FLUSS, ClusterAddress, ClusterKind, cluster_kind
from tiering.cluster.writable import WritableCluster


@contextmanager
def service_cluster(uri: str) -> Iterator[SplitSource]:
    """Opens the service's cluster as a tierer does. Raises ServiceUnreachable, or SetupError for a kind that this version does not know."""
    kind, address = _of_service(uri)
    with closing(kind.connect(address)) as cluster:
        yield cluster


@contextmanager
def fluss_cluster(servers: str) -> Iterator[SplitSource]:
    """Opens the Fluss cluster at `servers`, without a service. Raises SetupError, or InvalidArgument for an invalid address."""
    kind, address = _named(servers)
    with closing(kind.connect(address)) as cluster:
        yield cluster


@contextmanager
def writable_cluster(uri: str, fluss: str | None = None) -> Iterator[WritableCluster]:
    """Opens the service's cluster for writing, or the Fluss cluster at `fluss`, without a service.

    Raises the errors of `service_cluster`, and InvalidArgument for an invalid address.
    """
    kind, address = _of_service(uri) if fluss is None else _named(fluss)
    with kind.open_writer(address) as cluster:
        yield cluster


def _of_service(uri: str) -> tuple[ClusterKind, ClusterAddress]:
    config = service_config(uri, "command")
    return cluster_kind(config.cluster_kind), ClusterAddress(uri, config.cluster_id, config.cluster_properties)


def _named(servers: str) -> tuple[ClusterKind, ClusterAddress]:
    kind, settings = read_cluster(servers, None, None)
    # Only lake tables contain the id of the cluster, and this command reads none.
    return cluster_kind(kind), ClusterAddress("", FLUSS, settings)
