"""Checks of a Fluss cluster: its servers and their calls, leaders of buckets, its lake, and sharing of the lake with Fluss's JVMs."""

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
from tiering.cluster.fluss.kind import missing_modules
from tiering.cluster.fluss.settings import USERNAME_VARIABLE, FlussConnection, ServerAddress
from tiering.cluster.fluss.wire.api import DESCRIBE_CLUSTER_CONFIGS, LEASES, NEEDED_OF_A_TABLET_SERVER
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import LakewardError
from tiering.extras import install_hint
from tiering.lake.catalog_properties import FILESYSTEM
from tiering.lake.registry import format_names, has_format, open_lake
from tiering.lake.table_options import FORMAT
from tiering.model.tables import DEFAULT_LAKE_FORMAT
from tiering.rpc.fluss import fluss_pb2 as pb

CHECK, LAKE, SHARING = "fluss", "fluss lake", "shared lake"
CLUSTER_LAKE_FORMAT = "datalake.format"
"""Option of the servers. A coordinator with this option starts only with a plugin for the format (Fluss 0.9.1)."""
LOOKED_AT = 20
"""Tables whose descriptions are read. The cluster writes its lake format into each table that it creates."""
PARTITIONS_LOOKED_AT = 20
"""Newest partitions of each of these tables that are read."""


def packages() -> Iterator[Finding]:
    """Yields a finding if Python packages for Fluss are missing."""
    missing = missing_modules()
    if missing:
        yield fail(CHECK, f"these Python packages are not installed: {', '.join(missing)}", install_hint("fluss"))


@dataclass(frozen=True)
class _Table:
    """A described table. `buckets` are PbBucketMetadata."""

    name: str
    lake_format: str | None
    buckets: Sequence[Any]


def cluster_servers(servers: str) -> Iterator[Finding]:
    """Yields whether Lakeward can tier from the cluster at `HOST:PORT[,HOST:PORT]`. Raises InvalidArgument, and the client's errors."""
    client = FlussClient(FlussConnection.parse(servers, os.environ.get(USERNAME_VARIABLE)))
    try:
        has_leases = client.offers(*LEASES)
        members = client.servers()
        yield ok(CHECK, f"the coordinator at {members.coordinator} supports the calls that tiering needs")
        if not has_leases:
            mend = "Use Fluss 0.9.1 or later. Without leases, the cluster may delete a KV snapshot that a round reads, and it starts again."
            yield warn(CHECK, "it does not support leases on KV snapshots", mend)
        if not members.tablet_servers:
            yield fail(CHECK, "it has no tablet server", "Start one. If it runs, its log says why it does not reach the coordinator.")
        for number, address in sorted(members.tablet_servers.items()):
            yield _tablet_server(client, number, address)
        tables = [*islice(_tables(client), LOOKED_AT)]
        yield from _buckets(tables, members.tablet_servers)
        yield _lake_format(_configured_format(client), tables)
    finally:
        client.close()


def lake_of_cluster(servers: str, lake: NamedLake) -> Iterator[Finding]:
    """Yields whether the lake opens and has tables that the cluster reports as tiered. Raises SetupError if it has none of them."""
    lake_format = lake.format or DEFAULT_LAKE_FORMAT
    finding = opened(lake_format, lake.properties)
    yield finding
    if finding.verdict is Verdict.OK:
        with fluss_cluster(servers) as cluster:
            check_lake(cluster, open_lake(lake_format, lake.properties))
        yield ok(LAKE, "it has tables that the cluster reports as tiered")


def shared_lake(properties: Mapping[str, str]) -> Iterator[Finding]:
    """Yields what users have to know where Fluss's JVMs open the same lake. `properties` are those of the lake."""
    kind, uri = properties.get("type", ""), properties.get("uri", "")
    if not properties:
        mend = "Name the lake with --fluss-conf server.yaml, --datalake.iceberg.* or --datalake.paimon.*, or name a service with --uri."
        yield warn(SHARING, "no option and no service names the lake", mend)
        return
    if kind == "hadoop" and properties.get("warehouse", "").startswith("hdfs://"):
        yield ok(SHARING, "a hadoop catalog on HDFS, where no commit replaces another one")
    elif kind == FILESYSTEM:
        mend = (
            "Paimon's JVM classes check that the file name of a snapshot is free, and then rename. They may replace a commit at the same "
            "moment, so do not run Flink's tiering and Lakeward at the same time. Fluss's coordinator, which creates tables, is safe."
        )
        yield warn(SHARING, "a Paimon warehouse in a folder", mend)
    elif kind == "hadoop":
        mend = "Let only Lakeward write to the lake tables while it runs. Fluss's coordinator, which creates tables, is safe."
        yield warn(SHARING, "a hadoop catalog: Iceberg's JVM classes may replace a commit at the same moment", mend)
    elif uri.startswith("sqlite"):
        mend = (
            "Set datalake.iceberg.jdbc.init-catalog-tables: false for them: otherwise a JVM locks the database for ever. Or use PostgreSQL."
        )
        yield warn(SHARING, "a catalog in SQLite: Fluss's JVMs must not create the tables of the catalog", mend)
    else:
        yield ok(SHARING, f"a catalog of type {kind}, whose server compares and sets commits")


def _tablet_server(client: FlussClient, number: int, address: ServerAddress) -> Finding:
    try:
        missing = client.missing(address, *NEEDED_OF_A_TABLET_SERVER)
    except LakewardError as error:
        mend = error.hint or "Tierers and executors read logs from it: open its port to them, and check its advertised listeners."
        return fail(CHECK, f"tablet server {number} at {address} cannot be reached: {error.message}", mend)
    if missing:
        return fail(CHECK, f"tablet server {number} at {address} does not support {', '.join(missing)}", "Use Fluss 0.9.1 or later.")
    return ok(CHECK, f"tablet server {number} at {address} supports the calls that reading needs")


def _buckets(tables: Iterable[_Table], servers: Collection[int]) -> Iterator[Finding]:
    """Yields missing servers that have replicas of buckets, and buckets without a leader. A healthy cluster has neither."""
    away: dict[int, str] = {}
    for table in tables:
        for bucket in table.buckets:
            away |= {number: table.name for number in bucket.replica_id if number not in servers and number not in away}
    for number, name in sorted(away.items()):
        yield fail(
            CHECK, f"tablet server {number} is missing, and has replicas of buckets of {name}", "Start it again. Its log says why it ended."
        )
    leaderless = {table.name: count for table in tables if (count := sum(bucket.leader_id not in servers for bucket in table.buckets))}
    if leaderless:
        named = ", ".join(f"{name} ({count})" for name, count in leaderless.items())
        mend = "These buckets cannot be tiered. Start the tablet servers that have their replicas."
        yield fail(CHECK, f"buckets without a leader: {named}", mend)


def _configured_format(client: FlussClient) -> str | None:
    """Returns the lake format in the settings of the cluster; "" if it has none, None if it does not show its settings."""
    if not client.offers(DESCRIBE_CLUSTER_CONFIGS):
        return None
    try:
        settings = client.coordinator(pb.DescribeClusterConfigsRequest()).configs
    except LakewardError:  # for example, this user may not read the settings
        return None
    return next((setting.config_value for setting in settings if setting.config_key == CLUSTER_LAKE_FORMAT), "")


def _lake_format(configured: str | None, tables: Sequence[_Table]) -> Finding:
    formats = {str(table.lake_format) for table in tables if table.lake_format is not None}
    foreign = sorted(name for name in ({configured} if configured else formats) if not has_format(name))
    if foreign:
        return warn(
            CHECK,
            f"its lake has the format {', '.join(foreign)}; Lakeward writes {', '.join(format_names())}",
            f"Use a tiering service that writes {foreign[0]}. Lakeward only shows these tables.",
        )
    if configured:
        return ok(CHECK, f"its coordinator has a lake plugin: {CLUSTER_LAKE_FORMAT} is {configured}")
    if formats:
        return ok(CHECK, f"it has a lake plugin: its tables are tiered into a lake of the format {', '.join(sorted(formats))}")
    if configured == "":
        mend = "Set it and datalake.iceberg.* in server.yaml, and install the plugin fluss-lake-iceberg. Later tables have a lake."
        return warn(CHECK, f"its coordinator has no lake: {CLUSTER_LAKE_FORMAT} is not set", mend)
    if not tables:
        mend = "Create one, or check datalake.format and datalake.iceberg.* in server.yaml, and the plugin fluss-lake-iceberg."
        return warn(CHECK, "it has no tables that would show whether it has a lake", mend)
    return warn(
        CHECK,
        "none of its tables has a lake",
        "Set datalake.format and datalake.iceberg.* in server.yaml, and install the plugin fluss-lake-iceberg. Later tables have a lake.",
    )


def _tables(client: FlussClient) -> Iterator[_Table]:
    """Yields the tables with a readable description. Other tables were dropped meanwhile, or belong to a later version."""
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
    return _Table(f"{path.database_name}.{path.table_name}", description.get("properties", {}).get(FORMAT.name), buckets)
