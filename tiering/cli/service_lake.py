"""Asks a running service for its configuration, and how to open its lake."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from tiering.cli.terminal.options import check_property
from tiering.lake.catalog_properties import accepted_properties
from tiering.round.transport import GrpcTransport
from tiering.rpc.v1.coordinator_pb2 import GetServiceConfigResponse


@dataclass(frozen=True)
class ServiceLake:
    """The lake of a service.

    `properties` are the pyiceberg properties of the lake's catalog. `format` is the format of tables that do not name one. `cluster_id`
    names the cluster whose tables the service tiers.
    """

    format: str
    properties: dict[str, str]
    cluster_id: str


def service_config(uri: str, caller: str) -> GetServiceConfigResponse:
    """Returns the configuration of the service at `uri`. Raises ServiceUnreachable. `caller` names this program to the service."""
    with closing(GrpcTransport(uri, caller)) as transport:
        return transport.service_config_now()


def service_lake(uri: str) -> ServiceLake:
    """Returns the lake of the service at `uri`. Raises ServiceUnreachable, or InvalidArgument for a property with a line break."""
    config = service_config(uri, "lake-conf")
    properties = accepted_properties(config.lake_properties)
    for name, value in properties.items():
        check_property(f"the service at {uri} has the lake property", name, value)
    return ServiceLake(config.lake_format, properties, config.cluster_id)
