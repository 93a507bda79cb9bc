"""Asks a running service how to open its lake."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.cli.terminal.options import check_property
from tiering.lake.catalog_properties import accepted_properties
from tiering.round.transport import GrpcTransport


@dataclass(frozen=True)
class ServiceLake:
    """The lake of a service.

    `properties` are the pyiceberg properties of the lake's catalog. `format` is the format of tables that do not name one. `cluster_id`
    names the cluster whose tables the service tiers.
    """

    format: str
    properties: dict[str, str]
    cluster_id: str


def service_lake_properties(uri: str) -> dict[str, str]:
    """Returns the properties of the service's lake. Raises the errors of `service_lake`."""
    return service_lake(uri).properties


def service_lake(uri: str) -> ServiceLake:
    """Returns the lake of the service at `uri`. Raises ServiceUnreachable, or InvalidArgument for a property with a line break."""
    transport = GrpcTransport(uri, "lake-conf")
    try:
        config = transport.service_config_now()
    finally:
        transport.close()
    properties = accepted_properties(config.lake_properties)
    for name, value in properties.items():
        check_property(f"the service at {uri} has the lake property", name, value)
    return ServiceLake(config.lake_format, properties, config.cluster_id)
