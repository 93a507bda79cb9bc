"""The cluster of a running service, of whatever kind it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from tiering.cluster.base import SplitSource
from tiering.cluster.kinds import ClusterAddress
from tiering.cluster.registry import cluster_kind
from tiering.cluster.writable import WritableCluster
from tiering.errors import InvalidArgument
from tiering.round.transport import GrpcTransport


@contextmanager
def service_cluster(uri: str) -> Iterator[SplitSource]:
    """The service's cluster, as a tierer reads it. Raises ServiceUnreachable, SetupError (a kind that this version does not know)."""
    transport = GrpcTransport(uri, "command")
    try:
        config = transport.service_config_now()
    finally:
        transport.close()
    address = ClusterAddress(uri, config.cluster_id, config.cluster_properties)
    with closing(cluster_kind(config.cluster_kind).connect(address)) as cluster:
        yield cluster


@contextmanager
def writable_service_cluster(uri: str) -> Iterator[WritableCluster]:
    """The service's cluster, to be written to. Raises as `service_cluster`, and InvalidArgument for one that only others write to."""
    with service_cluster(uri) as cluster:
        if not isinstance(cluster, WritableCluster):
            raise InvalidArgument(
                f"the cluster of the service at {uri} cannot be written to by this command", hint="Use the cluster's own client."
            )
        yield cluster
