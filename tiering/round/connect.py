"""Opens what a tierer works with, from what the coordinator tells it."""

from __future__ import annotations

from collections.abc import Callable

from tiering.cluster.base import Cluster
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.errors import SetupError
from tiering.lake.base import Lake
from tiering.lake.catalog_properties import accepted_properties
from tiering.lake.registry import lake_opener, own_settings
from tiering.rpc.v1.coordinator_pb2 import GetServiceConfigResponse


def connect_cluster(config: GetServiceConfigResponse, uri: str) -> Cluster:
    """The source cluster. Raises SetupError for a kind that this version does not know."""
    if config.cluster_kind == "embedded":
        return RemoteEmbeddedCluster(uri)
    raise SetupError(
        f"this tierer cannot read a cluster of kind {config.cluster_kind!r}", hint="Use the same version as the coordinator's."
    )


def own_lake_properties(config: GetServiceConfigResponse) -> dict[str, str]:
    """How this process opens the lake, as far as the service may say. Raises InvalidArgument.

    What its own environment says goes before that: there a URI has its user and password.
    """
    own = own_settings(config.lake_format)
    return {name: value for name, value in accepted_properties(config.lake_properties).items() if name not in own}


def lakes_of(config: GetServiceConfigResponse) -> Callable[[str], Lake]:
    """Opens a lake by its format, once. Raises InvalidArgument."""
    return lake_opener(own_lake_properties(config))
