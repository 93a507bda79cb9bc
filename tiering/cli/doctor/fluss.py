"""A Fluss cluster: its servers and their calls, who holds its buckets, whether it has a lake, and how that lake is shared with its JVMs."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tiering.cli.doctor.findings import Finding, Verdict, fail, ok, warn
from tiering.cli.doctor.service import opened
from tiering.cli.processes.lake_check import check_lake
from tiering.cli.service_cluster import fluss_cluster
from tiering.cli.terminal.lake_options import NamedLake
from tiering.cluster.fluss.connection_options import FlussConnection, ServerAddress
from tiering.cluster.fluss.kind import missing_modules
from tiering.cluster.fluss.settings import USERNAME_VARIABLE
from tiering.cluster.fluss.table_json import LAKE_FORMAT
from tiering.cluster.fluss.wire.api import DESCRIBE_CLUSTER_CONFIGS, LEASES, NEEDED_OF_A_TABLET_SERVER
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import LakewardError
from tiering.extras import install_hint
from tiering.lake.catalog_properties import FILESYSTEM
from tiering.lake.registry import format_names, has_format, open_lake
from tiering.model.tables import DEFAULT_LAKE_FORMAT
from tiering.rpc.fluss import fluss_pb2 as pb

CHECK, LAKE, SHARING = "fluss", "fluss lake", "shared lake"
CLUSTER_LAKE_FORMAT = "datalake.format"
"""Option of the servers. With one the coordinator does not start without a plugin for it (Fluss 0.9.1)."""
LOOKED_AT = 20
"""Tables whose description is read: the cluster writes its lake format into each that it makes."""
PARTITIONS_LOOKED_AT = 20
"""Of each of them, the newest."""


def packages() -> Iterator[Finding]:
    """Whether this installation has what a Fluss cluster needs; nothing if it has."""
    missing = missing_modules()
    if missing:
        yield fail(CHECK, f"Python packages are not installed: {', '.join(missing)}", install_hint("fluss"))


@dataclass(frozen=True)
class _Table:
    """`buckets`: PbBucketMetadata."""

    name: str
    lake_format: str | None
    buckets: Sequence[Any]


def cluster_servers(servers: str) -> Iterator[Finding]:
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
        tables = [*islice(_tables(client), LOOKED_AT)]
        yield from _buckets(tables, known.tablet_servers)
        yield _lake_format(_configured_format(client), tables)
    finally:
        client.close()


def lake_of_cluster(servers: str, lake: NamedLake) -> Iterator[Finding]:
    """Whether the lake opens, and has what the cluster says is in it. Raises SetupError if it has none of that."""
    lake_format = lake.format or DEFAULT_LAKE_FORMAT
    finding = opened(lake_format, lake.properties)
    yield finding
    if finding.verdict is Verdict.OK:
        with fluss_cluster(servers) as cluster:
            check_lake(cluster, open_lake(lake_format, lake.properties))
        yield ok(LAKE, "it has the tables that the cluster says are tiered")


def shared_lake(properties: Mapping[str, str]) -> Iterator[Finding]:
    """What to mind where Fluss's JVMs open the lake of these properties, too."""
    kind, uri = properties.get("type", ""), properties.get("uri", "")
    if not properties:
        mend = (
            "Name it with --fluss-conf server.yaml, --datalake.iceberg.* or --datalake.paimon.*, or the service that goes by it with --uri."
        )
        yield warn(SHARING, "nothing says which lake it is", mend)
        return
    if kind == "hadoop" and properties.get("warehouse", "").startswith("hdfs://"):
        yield ok(SHARING, "a hadoop catalog on HDFS, where no commit replaces another's")
    elif kind == FILESYSTEM:
        mend = (
            "Paimon's JVM classes look whether a snapshot's name is free and then rename, and may replace a commit that comes in the same "
            "instant: let Flink's tiering and Lakeward take turns. Fluss's coordinator, which makes tables, is no danger."
        )
        yield warn(SHARING, "a Paimon warehouse in a folder", mend)
    elif kind == "hadoop":
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
        missing = client.missing(address, *NEEDED_OF_A_TABLET_SERVER)
    except LakewardError as error:
        mend = error.hint or "Tierers and executors read logs from it: open its port to them, and look at its advertised listeners."
        return fail(CHECK, f"tablet server {number} at {address} cannot be reached: {error.message}", mend)
    if missing:
        return fail(
            CHECK, f"tablet server {number} at {address} does not take {', '.join(missing)}", "Use Fluss 0.9.1, or a later version."
        )
    return ok(CHECK, f"tablet server {number} at {address} takes the calls that reading needs")


def _buckets(tables: Iterable[_Table], servers: Collection[int]) -> Iterator[Finding]:
    """Servers that hold buckets and are not there, and buckets that nobody leads; nothing of a cluster where all is well."""
    away: dict[int, str] = {}
    for table in tables:
        for bucket in table.buckets:
            away |= {number: table.name for number in bucket.replica_id if number not in servers and number not in away}
    for number, name in sorted(away.items()):
        yield fail(CHECK, f"tablet server {number} is not there, and holds buckets of {name}", "Start it again; its log says why it ended.")
    leaderless = {table.name: count for table in tables if (count := sum(bucket.leader_id not in servers for bucket in table.buckets))}
    if leaderless:
        named = ", ".join(f"{name} ({count})" for name, count in leaderless.items())
        mend = "Nothing of them can be tiered: start the tablet servers that have replicas of them."
        yield fail(CHECK, f"nobody leads buckets of {named}", mend)


def _configured_format(client: FlussClient) -> str | None:
    """The lake format of the cluster's own settings; "" = it has none, None = it does not show them."""
    if not client.offers(DESCRIBE_CLUSTER_CONFIGS):
        return None
    try:
        settings = client.coordinator(pb.DescribeClusterConfigsRequest()).configs
    except LakewardError:  # such as a user who may not see them
        return None
    return next((setting.config_value for setting in settings if setting.config_key == CLUSTER_LAKE_FORMAT), "")


def _lake_format(configured: str | None, tables: Sequence[_Table]) -> Finding:
    formats = {str(table.lake_format) for table in tables if table.lake_format is not None}
    foreign = sorted(name for name in ({configured} if configured else formats) if not has_format(name))
    if foreign:
        return warn(
            CHECK,
            f"it has a lake of format {', '.join(foreign)}, and Lakeward writes {', '.join(format_names())}",
            f"Leave its tables to a service that writes {foreign[0]}: Lakeward shows them, with this reason.",
        )
    if configured:
        return ok(CHECK, f"its coordinator has a lake plugin: {CLUSTER_LAKE_FORMAT} is {configured}")
    if formats:
        return ok(CHECK, f"it has a lake plugin: its tables go to a lake of format {', '.join(sorted(formats))}")
    if configured == "":
        mend = "Set it and datalake.iceberg.* in server.yaml, with the plugin fluss-lake-iceberg; tables made after that have a lake."
        return warn(CHECK, f"its coordinator has no lake: {CLUSTER_LAKE_FORMAT} is not set", mend)
    if not tables:
        mend = "Make one, or look at datalake.format and datalake.iceberg.* in server.yaml, and at the plugin fluss-lake-iceberg."
        return warn(CHECK, "it has no tables, which would tell whether it has a lake", mend)
    return warn(
        CHECK,
        "none of its tables says that it has a lake",
        "Set datalake.format and datalake.iceberg.* in server.yaml, with the plugin fluss-lake-iceberg; tables made after that have it.",
    )


def _tables(client: FlussClient) -> Iterator[_Table]:
    """Those that can be described: others were dropped since, or are of a later version."""
    for database in client.coordinator(pb.ListDatabasesRequest()).database_name:
        for name in client.coordinator(pb.ListTablesRequest(database_name=database)).table_name:
            with suppress(LakewardError, ValueError, AttributeError):
                yield _described(client, pb.PbTablePath(database_name=database, table_name=name))


def _described(client: FlussClient, path: pb.PbTablePath) -> _Table:
    [table] = client.coordinator(pb.MetadataRequest(table_path=[path])).table_metadata
    description = json.loads(table.table_json)
    buckets = list(table.bucket_metadata)
    if description.get("partition_key"):
        partitions = client.coordinator(pb.ListPartitionInfosRequest(table_path=path)).partitions_info
        ids = [partition.partition_id for partition in partitions][-PARTITIONS_LOOKED_AT:]
        answer = client.coordinator(pb.MetadataRequest(partitions_id=ids)) if ids else pb.MetadataResponse()
        buckets = [bucket for partition in answer.partition_metadata for bucket in partition.bucket_metadata]
    return _Table(f"{path.database_name}.{path.table_name}", description.get("properties", {}).get(LAKE_FORMAT), buckets)
