"""The lake of a running service, as the service tells its clients to open it."""

from __future__ import annotations

from dataclasses import dataclass

from tiering.cli.terminal.options import check_property
from tiering.lake.catalog_properties import accepted_properties
from tiering.round.transport import GrpcTransport


@dataclass(frozen=True)
class ServiceLake:
    """`properties`: of the lake's catalog, as pyiceberg takes them. `format`: of tables that do not name another.

    `cluster_id`: of the cluster whose tables the service tiers.
    """

    format: str
    properties: dict[str, str]
    cluster_id: str


def service_lake_properties(uri: str) -> dict[str, str]:
    """The properties of `service_lake`."""
    return service_lake(uri).properties


def service_lake(uri: str) -> ServiceLake:
    """The service's lake.

    Raises ServiceUnreachable; InvalidArgument for a property that cannot stand on one line of a file.
    """
    transport = GrpcTransport(uri, "lake-conf")
    try:
        config = transport.service_config_now()
    finally:
        transport.close()
    properties = accepted_properties(config.lake_properties)
    for name, value in properties.items():
        check_property(f"the service at {uri} has the lake property", name, value)
    return ServiceLake(config.lake_format, properties, config.cluster_id)
