"""A Fluss cluster: its servers, the calls that tiering needs, whether it has a lake, and how that lake is shared with its JVMs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from itertools import islice

from tiering.cli.doctor.findings import Finding, fail, ok, warn
from tiering.cluster.fluss.connection_options import FlussConnection, ServerAddress
from tiering.cluster.fluss.settings import USERNAME_VARIABLE
from tiering.cluster.fluss.table_json import LAKE_FORMAT
from tiering.cluster.fluss.wire.api import LEASES
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import LakewardError
from tiering.rpc.fluss import fluss_pb2 as pb

CHECK, SHARING = "fluss", "shared lake"
LOOKED_AT = 20
"""Tables whose description is read: the cluster writes its lake format into each that it makes."""


def fluss_cluster(servers: str) -> Iterator[Finding]:
    """Whether the cluster at `HOST:PORT[,HOST:PORT]` can be tiered from. Raises InvalidArgument, and as `FlussClient.coordinator`."""
    client = FlussClient(FlussConnection.parse(servers, os.environ.get(USERNAME_VARIABLE)))
    try:
        has_leases = client.offers(*LEASES)
        known = client.servers()
        yield ok(CHECK, f"the coordinator at {known.coordinator} takes the calls that tiering needs")
        if not has_leases:
            mend = "Use Fluss 0.9.1 or later: until then a round may lose a KV snapshot that it reads, and begins anew."
            yield warn(CHECK, "it keeps no leases on KV snapshots", mend)
        if not known.tablet_servers:
            yield fail(CHECK, "it knows no tablet server", "Start one; its log says why it does not reach the coordinator.")
        for number, address in sorted(known.tablet_servers.items()):
            yield _tablet_server(client, number, address)
        yield _lake_format(client)
    finally:
        client.close()


def shared_lake(properties: Mapping[str, str]) -> Iterator[Finding]:
    """What to mind where Fluss's JVMs open the lake of these properties, too."""
    kind, uri = properties.get("type", ""), properties.get("uri", "")
    if kind == "hadoop":
        mend = "Let nothing but Lakeward write to the lake's tables while it runs; Fluss's coordinator, which makes tables, is no danger."
        yield warn(SHARING, "a hadoop catalog: Iceberg's JVM classes may replace a commit that comes at the same moment", mend)
    elif uri.startswith("sqlite"):
        mend = (
            "Give them datalake.iceberg.jdbc.init-catalog-tables: false; without it a JVM locks the database for ever. Or use PostgreSQL."
        )
        yield warn(SHARING, "a catalog in SQLite: each of Fluss's JVMs has to leave its tables alone", mend)
    else:
        yield ok(SHARING, f"a catalog of type {kind}, whose commits are compared and set by its server")


def _tablet_server(client: FlussClient, number: int, address: ServerAddress) -> Finding:
    try:
        client.call(address, pb.MetadataRequest())
    except LakewardError as error:
        mend = error.hint or "Tierers and executors read logs from it: open its port to them, and look at its advertised listeners."
        return fail(CHECK, f"tablet server {number} at {address} cannot be reached: {error.message}", mend)
    return ok(CHECK, f"tablet server {number} at {address} answers")


def _lake_format(client: FlussClient) -> Finding:
    formats = {name for name in islice(_formats_of_tables(client), LOOKED_AT) if name is not None}
    if formats:
        return ok(CHECK, f"its tables go to a lake of format {', '.join(sorted(formats))}")
    return warn(
        CHECK,
        "none of its tables says that it has a lake",
        "Set datalake.format and datalake.iceberg.* in server.yaml, with the plugin fluss-lake-iceberg; tables made after that have it.",
    )


def _formats_of_tables(client: FlussClient) -> Iterator[str | None]:
    for database in client.coordinator(pb.ListDatabasesRequest()).database_name:
        for name in client.coordinator(pb.ListTablesRequest(database_name=database)).table_name:
            try:
                path = pb.PbTablePath(database_name=database, table_name=name)
                description = json.loads(client.coordinator(pb.GetTableInfoRequest(table_path=path)).table_json)
                yield description.get("properties", {}).get(LAKE_FORMAT)
            except (LakewardError, ValueError, AttributeError):
                yield None  # dropped since, or of a later version
