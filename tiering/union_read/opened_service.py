"""Opens the cluster and the lake of a running service for a union read, as a tierer does, with the rights of the caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from tiering.cluster.base import SplitSource
from tiering.cluster.registry import EMBEDDED, ClusterAddress, cluster_kind
from tiering.lake.registry import lake_opener, properties_from_service
from tiering.rpc.v1.coordinator_pb2 import GetServiceConfigRequest
from tiering.rpc.v1.coordinator_pb2_grpc import TieringCoordinatorStub
from tiering.union_read.plan import LakeOpener
from tiering.wire.channel import Connection

TIMEOUT_SECONDS = 5
"""Timeout of a call whose answer a user waits for."""


@dataclass(frozen=True)
class OpenedService:
    """The cluster and the lake of a service."""

    cluster: SplitSource
    open_lake: LakeOpener


@contextmanager
def open_service(uri: str) -> Iterator[OpenedService]:
    """Opens the service at `uri` for the time of the context. Raises ServiceUnreachable, SetupError."""
    with Connection(uri) as connection, connection.calling():
        config = TieringCoordinatorStub(connection.channel).GetServiceConfig(GetServiceConfigRequest(), timeout=TIMEOUT_SECONDS)
    address = ClusterAddress(uri, config.cluster_id, config.cluster_properties)
    properties = properties_from_service(config.lake_format, config.lake_properties)
    lakes = lake_opener(properties, None if config.cluster_kind == EMBEDDED else config.lake_format)
    with closing(cluster_kind(config.cluster_kind).connect(address)) as cluster:
        yield OpenedService(cluster, lakes)
