"""The cluster that a command works on: that of a running service, of whatever kind it is, or a Fluss cluster that the command names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from tiering.cluster.base import SplitSource
from tiering.cluster.kinds import ClusterAddress, ClusterKind
from tiering.cluster.registry import FLUSS, cluster_kind
from tiering.cluster.writable import WritableCluster
from tiering.round.transport import GrpcTransport


@contextmanager
def service_cluster(uri: str) -> Iterator[SplitSource]:
    """The service's cluster, as a tierer reads it. Raises ServiceUnreachable, SetupError (a kind that this version does not know)."""
    kind, address = _of_service(uri)
    with closing(kind.connect(address)) as cluster:
        yield cluster


@contextmanager
def fluss_cluster(servers: str) -> Iterator[SplitSource]:
    """The cluster of those servers, which no service needs to know. Raises SetupError, InvalidArgument for an address that is none."""
    kind, address = _named(servers)
    with closing(kind.connect(address)) as cluster:
        yield cluster


@contextmanager
def writable_cluster(uri: str, fluss: str | None = None) -> Iterator[WritableCluster]:
    """The service's cluster, to be written to; with `fluss` the cluster of those servers, which no service needs to know.

    Raises as `service_cluster`, InvalidArgument for an address that is none.
    """
    kind, address = _of_service(uri) if fluss is None else _named(fluss)
    with kind.open_writer(address) as cluster:
        yield cluster


def _of_service(uri: str) -> tuple[ClusterKind, ClusterAddress]:
    transport = GrpcTransport(uri, "command")
    try:
        config = transport.service_config_now()
    finally:
        transport.close()
    return cluster_kind(config.cluster_kind), ClusterAddress(uri, config.cluster_id, config.cluster_properties)


def _named(servers: str) -> tuple[ClusterKind, ClusterAddress]:
    from tiering.cluster.fluss.settings import BOOTSTRAP_SERVERS

    # The cluster's id stands in lake tables alone, and nobody asks for it here.
    return cluster_kind(FLUSS), ClusterAddress("", FLUSS, {BOOTSTRAP_SERVERS: servers})
