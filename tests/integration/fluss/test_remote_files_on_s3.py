"""A real Fluss cluster with two tablet servers that keeps its remote files in an S3 server, tiered from there."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from support.clusters.fluss_plugin import no_tables_plugins
from support.clusters.fluss_server import PROPERTIES
from support.clusters.fluss_snapshots import newest, snapshots_up_to
from support.clusters.fluss_tables import FlussTables
from support.lakes.lake_proof import lake_rows
from support.running.fluss_deployment import LAKE, FlussDeployment
from support.running.processes import wait_for
from support.running.s3_server import ACCESS_KEY, REGION, SECRET_KEY, s3_file_system, s3_server
from tiering.cli.fluss_server.configuration import ClusterSettings
from tiering.cli.fluss_server.jars import plugins_folder
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster, local_cluster
from tiering.clock import SystemClock
from tiering.cluster.base import SplitReader
from tiering.cluster.fluss.kv.snapshots import open_snapshot_reader
from tiering.cluster.fluss.leases import FlussLeases, LeaseLedger
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.cluster.fluss.memory import FlussMemory
from tiering.cluster.fluss.source import SchemaHistory
from tiering.errors import KvSnapshotGone
from tiering.lake.fluss.options import lake_of_fluss
from tiering.model.leases import KvSnapshot
from tiering.model.splits import TieringSnapshotSplit
from tiering.model.tables import SNAPSHOT_OFFSET, BucketKey, TableBucket, TableInfo

BUCKET = "fluss-remote"
ORDERS = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])
KEYED = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
COUNT = 5_000
"""Enough for segments beyond the two newest, which the tablet server keeps as well."""
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class World:
    """The cluster and what a test looks at it with."""

    cluster: LocalFlussCluster
    endpoint: str
    lake: Mapping[str, str]
    tables: FlussTables = field(repr=False)

    @property
    def storage(self) -> dict[str, str]:
        return {"s3.endpoint": self.endpoint, "s3.region": REGION, "s3.path-style-access": "true"}

    def stored(self, folder: str) -> list[str]:
        """Files of the bucket below a folder."""
        infos = s3_file_system(self.endpoint).get_file_info(fs.FileSelector(f"{BUCKET}/{folder}", recursive=True, allow_not_found=True))
        return [info.path for info in infos if info.type is fs.FileType.File]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("on-s3")
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "no-tables").symlink_to(no_tables_plugins() / "no-tables")
    (plugins / "s3").symlink_to(plugins_folder() / "s3")
    lake = {"type": "hadoop", "warehouse": str(folder / "lake")}
    with s3_server(folder / "s3.log", BUCKET) as endpoint:
        of_s3 = {"s3.endpoint": endpoint, "s3.region": REGION, "s3.path-style-access": "true"}
        keys = {"s3.access-key": ACCESS_KEY, "s3.secret-key": SECRET_KEY}
        properties = {**PROPERTIES, "remote.data.dir": f"s3://{BUCKET}/data", **of_s3, **keys}
        with local_cluster(folder / "fluss", ClusterSettings(plugins, lake, tablet_servers=2, server_properties=properties)) as cluster:
            tables = FlussTables(cluster.bootstrap_servers)
            properties_of_lake = lake_of_fluss({f"datalake.iceberg.{name}": value for name, value in lake.items()}).properties
            yield World(cluster, endpoint, properties_of_lake, tables)
            tables.close()


@pytest.fixture
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUSS_S3_ACCESS_KEY", ACCESS_KEY)
    monkeypatch.setenv("FLUSS_S3_SECRET_KEY", SECRET_KEY)


def test_segments_and_kv_snapshots_in_s3_are_tiered_by_the_options_of_server_yaml(world: World, tmp_path: Path) -> None:
    tables = world.tables
    log = tables.create("on_s3", ORDERS, properties={**LAKE, "table.log.arrow.compression.type": "NONE"})
    for first in range(0, COUNT, 500):
        ids = range(first, first + 500)
        tables.append(log, [pa.RecordBatch.from_pydict({"id": ids, "text": [f"row {number}".ljust(60) for number in ids]}, schema=ORDERS)])
    keyed = tables.create("keyed_on_s3", KEYED, ["id"], buckets=2, properties=LAKE)
    tables.upsert(keyed, [{"id": number, "text": f"text {number}"} for number in range(100)])
    snapshots_up_to(tables, keyed, 100)
    wait_for("the log to be in S3", lambda: _is_remote(world, log, 0))
    assert world.stored("data/log/sales")

    deployment = FlussDeployment(tmp_path, servers=world.cluster.bootstrap_servers)
    try:
        conf = ("--fluss-conf", str(world.cluster.server_yaml))
        deployment.start_coordinator(*conf)
        deployment.start_tierer("first", "--master", "local[1]", *conf)
        for table in (log, keyed):
            deployment.wait_tiered(table.path)
        deployment.assert_exact(log.path, COUNT, world.lake)
        in_lake = lake_rows(world.lake, keyed.path)
        assert sorted(zip(in_lake["id"].to_pylist(), in_lake["text"].to_pylist(), strict=True)) == [(n, f"text {n}") for n in range(100)]
        assert set(in_lake["__offset"].to_pylist()) == {SNAPSHOT_OFFSET}  # from the KV snapshots, which no server sends
        written = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
        assert not [content for content in written if SECRET_KEY.encode() in content]
    finally:
        deployment.close()


@pytest.mark.usefixtures("_keys")
def test_a_reader_carries_no_key(world: World) -> None:
    keyed = world.tables.create("carried", KEYED, ["id"])
    world.tables.upsert(keyed, [{"id": 1, "text": "a"}])
    [(bucket, snapshot)] = snapshots_up_to(world.tables, keyed, 1).items()
    carried = pickle.dumps(_reader(world, keyed, bucket, snapshot))
    assert SECRET_KEY.encode() not in carried
    [batch] = pickle.loads(carried).read()
    assert batch.column("text").to_pylist() == ["a"]


@pytest.mark.soak
@pytest.mark.usefixtures("_keys")
def test_a_lease_holds_snapshots_of_buckets_on_two_tablet_servers(world: World, tmp_path: Path) -> None:
    tables, memory = world.tables, FlussMemory(tmp_path)
    table = tables.create("leased_on_two", KEYED, ["id"], buckets=4)
    buckets = [BucketKey(None, number) for number in range(4)]
    leaders = tables.client.leaders_of(table.path, table.table_id, buckets)
    assert len(set(leaders.values())) == 2
    tables.upsert(table, [{"id": number, "text": "old"} for number in range(100)])
    leased = snapshots_up_to(tables, table, 100, buckets=buckets)
    snapshots = {TableBucket(table.table_id, bucket): snapshot.snapshot_id for bucket, snapshot in leased.items()}
    leases = FlussLeases(tables.client, LeaseLedger(memory.engine), SystemClock())
    try:
        assert list(leases.acquire_lease("reader", HOUR_MS, snapshots, "ann")) == []
        _supersede(tables, table, leased)
        assert list(leases.acquire_lease("reader", HOUR_MS, {})) == []
        assert {text for bucket, snapshot in leased.items() for text in _texts(world, table, bucket, snapshot)} == {"old"}

        by_server = {bucket: leaders[bucket] for bucket in buckets}
        of_the_first = [bucket for bucket in buckets if by_server[bucket] == by_server[buckets[0]]]
        released = [TableBucket(table.table_id, bucket) for bucket in of_the_first]
        assert set(leases.release_lease("reader", released)) == set(released)
        _supersede(tables, table, newest(tables, table))
        for bucket in of_the_first:
            wait_for(f"bucket {bucket} is let go", lambda bucket=bucket: _is_gone(world, table, bucket, leased[bucket]))  # type: ignore[misc]
        kept = [bucket for bucket in buckets if bucket not in of_the_first]
        assert {text for bucket in kept for text in _texts(world, table, bucket, leased[bucket])} == {"old"}

        assert leases.drop_lease("reader")
        _supersede(tables, table, newest(tables, table))
        for bucket in kept:
            wait_for(f"bucket {bucket} is let go", lambda bucket=bucket: _is_gone(world, table, bucket, leased[bucket]))  # type: ignore[misc]
        assert list(leases.leases()) == []
    finally:
        memory.close()


def _is_remote(world: World, table: TableInfo, bucket: int) -> bool:
    _, answer = BucketLog(world.tables.client, table.path, table.table_id, BucketKey(None, bucket)).fetch(0, 1, 1)
    return bool(answer.HasField("remote_log_fetch_info"))


def _reader(world: World, table: TableInfo, bucket: BucketKey, snapshot: KvSnapshot) -> SplitReader:
    split = TieringSnapshotSplit(table.path, bucket, None, snapshot.snapshot_id, snapshot.log_offset, snapshot.log_offset)
    return open_snapshot_reader(world.tables.client, table, split, SchemaHistory(world.tables.client).of(table), world.storage)


def _texts(world: World, table: TableInfo, bucket: BucketKey, snapshot: KvSnapshot) -> list[str]:
    return [text for batch in _reader(world, table, bucket, snapshot).read() for text in batch.column("text").to_pylist()]


def _is_gone(world: World, table: TableInfo, bucket: BucketKey, snapshot: KvSnapshot) -> bool:
    try:
        _texts(world, table, bucket, snapshot)
    except KvSnapshotGone:
        return True
    return False


def _supersede(tables: FlussTables, table: TableInfo, former: Mapping[BucketKey, KvSnapshot]) -> None:
    """Takes two newer snapshots of every bucket; of snapshots without a lease Fluss keeps one."""
    for turn in range(2):
        tables.upsert(table, [{"id": number, "text": f"new {turn}"} for number in range(100)])

        def have_moved(former: Mapping[BucketKey, KvSnapshot] = former) -> Mapping[BucketKey, KvSnapshot] | None:
            newer = newest(tables, table)
            return newer if all(newer[bucket].snapshot_id > snapshot.snapshot_id for bucket, snapshot in former.items()) else None

        former = wait_for("newer KV snapshots", have_moved)
