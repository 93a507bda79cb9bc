"""The real Fluss cluster of the tests: the fixture `fluss` of tests/conftest.py boots it once, for the first test that asks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from support.clusters.fluss_plugin import no_tables_plugins
from tiering.cli.fluss_server.configuration import ClusterSettings
from tiering.cli.fluss_server.held_ports import LOOPBACK
from tiering.cli.fluss_server.local_cluster import READY_SECONDS, LocalFlussCluster
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.cluster.fluss.settings import FlussConnection, ServerAddress
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import LakewardError, SetupError
from tiering.model.tables import BucketKey, TableInfo
from tiering.rpc.fluss import fluss_pb2 as pb

USER, PASSWORD = "ada", "Xq7-of-tests"
"""The user of the listener that requires a login."""
PROPERTIES = {
    "kv.snapshot.interval": "2s",
    "remote.log.task-interval-duration": "1s",
    "log.segment.file-size": "64kb",
    "log.index.interval-size": "1kb",
}
"""KV snapshots and remote log segments come within seconds, also of a few rows."""


def lake_settings(tablet_servers: int = 1) -> ClusterSettings:
    """Settings of a cluster whose tables may be tiered; the tiering services create the lake tables."""
    return ClusterSettings(
        plugins_folder=no_tables_plugins(),
        lake={"type": "hadoop", "warehouse": "/nowhere"},
        tablet_servers=tablet_servers,
        users={USER: PASSWORD},
        server_properties=PROPERTIES,
    )


def login_servers(cluster: LocalFlussCluster) -> str:
    """`HOST:PORT` of the coordinator's listener that asks for a password. It exists only with users."""
    assert cluster.coordinator_ports.login is not None
    return str(ServerAddress(LOOPBACK, cluster.coordinator_ports.login))


def zookeeper_address(cluster: LocalFlussCluster) -> str:
    """`HOST:PORT` of ZooKeeper. Clients of Fluss do not need it."""
    return str(cluster.zookeeper_server)


def tablet_server_address(cluster: LocalFlussCluster, number: int) -> str:
    """`HOST:PORT` of a tablet server's listener without a login."""
    return str(ServerAddress(LOOPBACK, cluster.tablet_ports[number].plain))


def kill_tablet_server(cluster: LocalFlussCluster, number: int) -> None:
    """Kills a tablet server with SIGKILL, and waits until the coordinator notices.

    If the server starts again earlier, the coordinator counts it as present, and removes it once when the session of the killed process
    ends. Raises SetupError if the coordinator does not notice.
    """
    cluster.tablet_servers[number].kill()
    deadline = time.monotonic() + READY_SECONDS
    client = FlussClient(FlussConnection.parse(cluster.bootstrap_servers))
    try:
        while number in client.servers().tablet_servers:
            if time.monotonic() > deadline:
                raise SetupError(f"the coordinator still lists tablet server {number}", hint=f"The logs are in {cluster.logs}.")
            time.sleep(0.1)
    finally:
        client.close()


def leader_number(cluster: LocalFlussCluster, client: FlussClient, table: TableInfo, bucket: BucketKey) -> int:
    """The id of the tablet server that leads a bucket."""
    client.forget_leader(table.path, table.table_id, bucket)
    leader = str(client.leader_of(table.path, table.table_id, bucket))
    return next(number for number in cluster.tablet_servers if tablet_server_address(cluster, number) == leader)


def is_led(cluster: LocalFlussCluster, client: FlussClient, table: TableInfo, bucket: BucketKey) -> bool:
    """Whether the leader of a bucket serves it, and every tablet server knows who that is.

    Fluss's client asks any of them, and waits without end where that one knows of no leader.
    """
    client.forget_leader(table.path, table.table_id, bucket)
    name = pb.PbTablePath(database_name=table.path.database_name, table_name=table.path.table_name)
    try:
        BucketLog(client, table.path, table.table_id, bucket).bounds()
        for number in cluster.tablet_servers:
            answer = client.call(ServerAddress.parse(tablet_server_address(cluster, number)), pb.MetadataRequest(table_path=[name]))
            alive = {server.node_id for server in answer.tablet_servers}
            buckets = [known for metadata in answer.table_metadata for known in metadata.bucket_metadata]
            if not any(
                known.bucket_id == bucket.bucket_id and known.leader_id in alive for known in buckets if known.HasField("leader_id")
            ):
                return False
    except LakewardError:
        return False
    return True


def noted_end(cluster: LocalFlussCluster, number: int, table: TableInfo) -> int:
    """Rows of a table that a tablet server has noted as replicated, which it does every few seconds."""
    file = _notes(cluster, number)
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return sum(int(words[-1]) for words in lines if _is_of(table, words))


def kill_with_notes(cluster: LocalFlussCluster, number: int, table: TableInfo, noted: int) -> None:
    """SIGKILL to a tablet server, just when it had noted no more than `noted` rows of each bucket of a table, and its restart.

    Of a bucket without replicas it cuts the rest of the log then (Fluss 0.9.1).
    """
    kill_tablet_server(cluster, number)
    lines = [line.split() for line in _notes(cluster, number).read_text().splitlines()]
    lines = [[*words[:-1], str(noted)] if _is_of(table, words) else words for words in lines]
    _notes(cluster, number).write_text("".join(" ".join(words) + "\n" for words in lines))
    cluster.tablet_servers[number].start()


def start_all(cluster: LocalFlussCluster) -> None:
    """Starts the servers that do not run, and waits until the cluster can be used."""
    for process in (cluster.coordinator, *cluster.tablet_servers.values()):
        if not process.is_running:
            process.start()
    cluster.wait_ready()


def _notes(cluster: LocalFlussCluster, number: int) -> Path:
    """A line a bucket: table id, partition id if it has one, bucket, offset; before them a version and the number of lines."""
    return cluster.folder / "data" / f"tablet-{number}" / "high-watermark-checkpoint"


def _is_of(table: TableInfo, words: Sequence[str]) -> bool:
    return len(words) > 2 and words[0] == str(table.table_id)
