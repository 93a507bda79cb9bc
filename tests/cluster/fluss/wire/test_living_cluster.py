"""A cluster whose servers are killed and come back: two tablet servers, a table whose buckets both of them have."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pytest

from support.clusters.fluss_server import lake_settings, tablet_server_address
from support.clusters.fluss_tables import FlussTables
from support.running.fluss_health import OF_FLUSS
from support.running.processes import wait_for
from tiering.cli.doctor.findings import Verdict
from tiering.cli.doctor.fluss import cluster_servers
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster, local_cluster
from tiering.cluster.fluss.settings import FlussConnection, ServerAddress
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import ClusterUnavailable, LakewardError, UnknownPartition, UnknownTable
from tiering.model.tables import BucketKey, TableInfo
from tiering.rpc.fluss import fluss_pb2 as pb

from .conftest import Opened

pytestmark = pytest.mark.integration

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
ROWS = pa.RecordBatch.from_pydict({"id": list(range(100)), "name": ["x"] * 100}, SCHEMA)
BUCKETS = [BucketKey(None, 0), BucketKey(None, 1)]
PATIENCE_S = 120
"""For an election after a kill: a session of ZooKeeper's has to end, on a busy machine."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFlussCluster]:
    with local_cluster(tmp_path_factory.mktemp("fluss-of-two"), lake_settings(tablet_servers=2)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def tables(cluster: LocalFlussCluster) -> Iterator[FlussTables]:
    tables = FlussTables(cluster.bootstrap_servers)
    yield tables
    tables.close()


@pytest.fixture
def running(cluster: LocalFlussCluster) -> Iterator[LocalFlussCluster]:
    """The cluster, all of whose servers run again after the test."""
    yield cluster
    for process in (cluster.coordinator, *cluster.tablet_servers.values()):
        if not process.is_running:
            process.start()
    cluster.wait_ready()


def replicated(tables: FlussTables, name: str, replicas: int, buckets: int = 2) -> TableInfo:
    """A table with rows in some of its buckets."""
    table = tables.create(name, SCHEMA, buckets=buckets, properties={"table.replication.factor": str(replicas)})
    tables.append(table, [ROWS])
    return table


def end_of_log(client: FlussClient, table: TableInfo) -> int:
    """Rows in all buckets, each asked of its leader, as a caller does who follows leaders."""
    total = 0
    for bucket in BUCKETS[: table.bucket_count]:
        request = pb.ListOffsetsRequest(follower_server_id=-1, offset_type=1, table_id=table.table_id, bucket_id=[bucket.bucket_id])
        try:
            (answer,) = client.call(client.leader_of(table.path, table.table_id, bucket), request).buckets_resp
        except ClusterUnavailable:
            client.forget_leader(table.path, table.table_id, bucket)
            raise
        if answer.error_code:
            client.forget_leader(table.path, table.table_id, bucket)
            raise ClusterUnavailable(answer.error_message)
        total += answer.offset
    return total


def noted_end(cluster: LocalFlussCluster, number: int, table: TableInfo) -> int:
    """Rows of a table that a tablet server has noted as replicated: lines of table id, bucket, offset."""
    file = cluster.folder / "data" / f"tablet-{number}" / "high-watermark-checkpoint"
    lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
    return sum(int(words[-1]) for words in lines if len(words) == 3 and words[0] == str(table.table_id))


def end_of_log_soon(client: FlussClient, table: TableInfo) -> int:
    """Returns the end of the log, after an election is over."""

    def probe() -> int | None:
        try:
            return end_of_log(client, table)
        except LakewardError:
            return None

    return wait_for("leaders of both buckets", probe, PATIENCE_S)


def test_a_killed_tablet_servers_buckets_are_read_from_the_other(running: LocalFlussCluster, tables: FlussTables, opened: Opened) -> None:
    table = replicated(tables, "replicated", 2)
    client = opened(FlussConnection.parse(running.bootstrap_servers))
    assert end_of_log_soon(client, table) == 100

    killed = client.leader_of(table.path, table.table_id, BUCKETS[0])
    (number,) = (number for number in running.tablet_servers if tablet_server_address(running, number) == str(killed))
    running.tablet_servers[number].kill()

    assert end_of_log_soon(client, table) == 100
    leaders = client.leaders_of(table.path, table.table_id, BUCKETS)
    assert {str(leader) for leader in leaders.values()} == {tablet_server_address(running, 1 - number)}


def test_a_bucket_without_a_leader_says_so_until_its_server_is_back(
    running: LocalFlussCluster, tables: FlussTables, opened: Opened
) -> None:
    table = replicated(tables, "alone", 1, buckets=1)
    client = opened(FlussConnection.parse(running.bootstrap_servers))
    assert end_of_log_soon(client, table) == 100
    (number,) = (
        number
        for number in running.tablet_servers
        if tablet_server_address(running, number) == str(client.leader_of(table.path, table.table_id, BUCKETS[0]))
    )
    # A bucket without replicas comes back with what its server had noted every few seconds; the rest of its log is cut.
    wait_for("the log's end is noted", lambda: noted_end(running, number, table) == 100 or None, PATIENCE_S)
    running.tablet_servers[number].kill()

    def leaderless() -> LakewardError | None:
        client.forget_leader(table.path, table.table_id, BUCKETS[0])
        try:
            client.leader_of(table.path, table.table_id, BUCKETS[0])
        except LakewardError as error:
            return error
        return None

    error = wait_for("the bucket has no leader", leaderless, PATIENCE_S)
    assert isinstance(error, ClusterUnavailable)
    assert error.message == "bucket 0 of sales.alone has no leader now"
    assert re.fullmatch(OF_FLUSS[0], error.message), "a test that fails of it runs again"
    failures = [finding.result for finding in cluster_servers(running.bootstrap_servers) if finding.verdict is Verdict.FAIL]
    assert any(result.startswith(f"tablet server {number} is missing, and has replicas of buckets of sales.") for result in failures)
    assert any("buckets without a leader:" in result and "sales.alone (1)" in result for result in failures)
    running.tablet_servers[number].start()
    assert end_of_log_soon(client, table) == 100


def test_a_killed_coordinator_is_waited_for_by_who_may_ask_again(running: LocalFlussCluster, tables: FlussTables, opened: Opened) -> None:
    table = replicated(tables, "kept", 1)
    impatient = opened(FlussConnection((running.bootstrap_servers,), patience_s=0))
    patient = opened(FlussConnection((running.bootstrap_servers,), patience_s=PATIENCE_S))
    request = pb.GetTableInfoRequest(table_path=tables.path(table))
    for client in (impatient, patient):
        assert client.coordinator(request).table_id == table.table_id

    running.coordinator.kill()

    with pytest.raises(ClusterUnavailable, match=running.bootstrap_servers):
        impatient.coordinator(request)
    assert end_of_log(patient, table) == 100  # tablet servers go on without it
    running.coordinator.start()
    assert patient.coordinator(request).table_id == table.table_id


def test_buckets_are_found_while_the_coordinator_is_away(running: LocalFlussCluster, tables: FlussTables, opened: Opened) -> None:
    table = replicated(tables, "orphaned", 1)
    running.coordinator.kill()

    client = opened(FlussConnection.parse(",".join((running.bootstrap_servers, tablet_server_address(running, 0)))))

    assert end_of_log(client, table) == 100


def test_a_table_that_is_gone_has_no_leaders(running: LocalFlussCluster, tables: FlussTables, opened: Opened) -> None:
    table = replicated(tables, "dropped", 1)
    client = opened(FlussConnection.parse(running.bootstrap_servers))
    tables.drop(table)

    with pytest.raises(UnknownTable, match=r"sales\.dropped"):
        client.leader_of(table.path, table.table_id, BUCKETS[0])
    replicated(tables, "dropped", 1)
    with pytest.raises(UnknownTable, match="another one has its name"):
        client.leader_of(table.path, table.table_id, BUCKETS[0])


def test_a_partition_that_is_gone_has_no_leaders(running: LocalFlussCluster, tables: FlussTables, opened: Opened) -> None:
    table = tables.create("parted", SCHEMA, buckets=1, partition_keys=["name"])
    partition = tables.add_partition(table, {"name": "x"})
    bucket = BucketKey(partition, 0)
    client = opened(FlussConnection.parse(running.bootstrap_servers))

    def led() -> ServerAddress | None:
        try:
            return client.leader_of(table.path, table.table_id, bucket)
        except ClusterUnavailable:
            return None

    assert str(wait_for("a leader", led, PATIENCE_S)) in {tablet_server_address(running, number) for number in running.tablet_servers}
    tables.drop_partition(table, {"name": "x"})

    def refused() -> bool:
        """Servers hear of it some moments after the coordinator answered."""
        client.forget_leader(table.path, table.table_id, bucket)
        try:
            client.leader_of(table.path, table.table_id, bucket)
        except UnknownPartition:
            return True
        except ClusterUnavailable:
            pass
        return False

    wait_for("the servers know that the partition is gone", refused, PATIENCE_S)
