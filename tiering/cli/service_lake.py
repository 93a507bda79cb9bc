"""The lake of a running service, as the service tells its clients to open it."""

from __future__ import annotations

from tiering.cli.terminal.options import check_property
from tiering.lake.catalog_properties import accepted_properties
from tiering.round.transport import GrpcTransport


def service_lake_properties(uri: str) -> dict[str, str]:
    """Properties of the lake's catalog as pyiceberg takes them, with what this process knows of its own.

    Raises ServiceUnreachable; InvalidArgument for a property that cannot stand on one line of a file.
    """
    transport = GrpcTransport(uri, "lake-conf")
    try:
        properties = accepted_properties(transport.service_config_now().lake_properties)
    finally:
        transport.close()
    for name, value in properties.items():
        check_property(f"the service at {uri} has the lake property", name, value)
    return properties
