"""Rounds of a real Fluss cluster, of which this deployment is the only tiering service, while things go wrong or change."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from support.clusters.fluss_tables import FlussTables
from support.lakes.lake_proof import lake_rows, marker_of
from support.running.cluster_of_processes import rows
from support.running.fluss_deployment import LAKE, FlussDeployment, make_orders
from support.running.processes import wait_for
from tiering import crash_points
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.lake_record import OFFSETS_KEY
from tiering.cluster.fluss.source import UNREADABLE
from tiering.lake.marker import TieredRange
from tiering.model.tables import BucketKey, TablePath

COUNT = 300


@pytest.fixture
def tables(fluss: LocalFlussCluster) -> Iterator[FlussTables]:
    tables = FlussTables(fluss.bootstrap_servers)
    yield tables
    tables.close()


@pytest.fixture
def deployment(fluss: LocalFlussCluster, tmp_path: Path) -> Iterator[FlussDeployment]:
    """A coordinator that runs; tierers are the test's."""
    deployment = FlussDeployment(tmp_path, servers=fluss.bootstrap_servers)
    try:
        deployment.start_coordinator()
        yield deployment
    finally:
        deployment.close()


def test_a_log_table_is_tiered_exactly_and_the_cluster_knows_how_far(deployment: FlussDeployment, tables: FlussTables) -> None:
    table = make_orders(tables, "whole")
    deployment.write(tables, table, 0, COUNT)
    deployment.start_tierer("first")
    deployment.wait_tiered(table.path)
    deployment.assert_exact(table.path, COUNT)
    deployment.restart_coordinator()
    deployment.write(tables, table, COUNT, COUNT)
    deployment.wait_tiered(table.path)
    deployment.assert_exact(table.path, 2 * COUNT)
    lake = load_catalog("lake", **deployment.data.lake_properties).load_table(str(table.path))
    head = lake.current_snapshot()
    assert head is not None
    recorded, marker = deployment.recorded(table.path), marker_of(deployment.data.lake_properties, table.path)
    assert recorded is not None
    assert marker is not None
    assert recorded.lake_snapshot_id == head.snapshot_id
    assert {bucket: at for bucket, at in recorded.offsets.items() if at} == {b: r.tiered for b, r in marker.buckets.items() if r.tiered}
    assert head.summary is not None
    assert Path(str(head.summary[OFFSETS_KEY])).is_file()
    tables.drop(table)


def test_keys_are_tiered_from_their_changes(deployment: FlussDeployment, tables: FlussTables) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
    table = tables.create("keyed", schema, ["id"], buckets=2, properties=LAKE)
    tables.upsert(table, ({"id": number, "text": "first"} for number in range(100)))
    deployment.wrote()
    deployment.start_tierer("first")
    deployment.wait_tiered(table.path)
    tables.upsert(table, ({"id": number, "text": "second"} for number in range(50, 120)))
    tables.delete(table, ({"id": number} for number in range(0, 20)))
    deployment.wrote()
    deployment.wait_tiered(table.path)
    in_lake = lake_rows(deployment.data.lake_properties, table.path)
    texts = dict(zip(in_lake["id"].to_pylist(), in_lake["text"].to_pylist(), strict=True))
    assert texts == {number: "first" if number < 50 else "second" for number in range(20, 120)}
    assert in_lake.num_rows == len(texts)
    tables.drop(table)


def test_partitions_come_and_go_and_a_column_is_added(deployment: FlussDeployment, tables: FlussTables) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("region", pa.string())])
    table = tables.create("regions", schema, buckets=1, partition_keys=["region"], properties=LAKE)
    north = tables.add_partition(table, {"region": "north"})
    tables.append(table, [pa.RecordBatch.from_pydict({"id": [1, 2], "region": ["north"] * 2}, schema=schema)])
    deployment.wrote()
    deployment.start_tierer("first")
    deployment.wait_tiered(table.path)
    south = tables.add_partition(table, {"region": "south"})
    wider = tables.add_column(table, pa.field("note", pa.string()))
    note = pa.RecordBatch.from_pydict({"id": [3], "region": ["south"], "note": ["new"]}, schema=wider.schema)
    tables.append(wider, [note])
    tables.drop_partition(table, {"region": "north"})
    deployment.wrote()
    wait_for("the new partition is tiered", lambda: _tiered_partitions(deployment, table.path) == {south: 1})
    in_lake = lake_rows(deployment.data.lake_properties, table.path).sort_by("id")
    assert in_lake.select(["id", "region", "note"]).to_pylist() == [
        {"id": 1, "region": "north", "note": None},
        {"id": 2, "region": "north", "note": None},
        {"id": 3, "region": "south", "note": "new"},
    ]
    recorded = deployment.recorded(table.path)
    assert recorded is not None
    assert {bucket.partition_id for bucket in recorded.offsets} == {south} != {north}
    tables.drop(table)


def test_a_table_made_anew_under_its_name_is_not_taken_for_the_former_one(deployment: FlussDeployment, tables: FlussTables) -> None:
    table = make_orders(tables, "anew")
    deployment.write(tables, table, 0, COUNT)
    deployment.start_tierer("first")
    deployment.wait_tiered(table.path)
    again = make_orders(tables, "anew")
    tables.append(again, rows(0, 10).to_batches())
    status = wait_for("the new table fails", lambda: _failed(deployment, again.path))
    assert status == "TableMismatch"
    assert lake_rows(deployment.data.lake_properties, table.path).num_rows == COUNT
    assert deployment.recorded(again.path) is None
    tables.drop(again)


@pytest.mark.parametrize("point", [crash_points.AFTER_FENCE, crash_points.AFTER_LAKE_COMMIT, crash_points.AFTER_ACK])
def test_a_tierer_killed_in_its_commit_leaves_every_offset_once(deployment: FlussDeployment, tables: FlussTables, point: str) -> None:
    table = make_orders(tables, f"killed_{point}")
    deployment.write(tables, table, 0, COUNT)
    first = deployment.start_tierer("first", crash_point=point)
    assert first.wait_ended(90) == -signal.SIGKILL
    deployment.write(tables, table, COUNT, COUNT)
    deployment.start_tierer("second")
    deployment.wait_tiered(table.path)
    deployment.assert_exact(table.path, 2 * COUNT)
    tables.drop(table)


@pytest.mark.parametrize("point", [crash_points.ACK_STORED, crash_points.LAKE_RECORD_PREPARED])
def test_a_coordinator_killed_before_it_told_the_cluster_tells_it_later(
    fluss: LocalFlussCluster, tmp_path: Path, tables: FlussTables, point: str
) -> None:
    table = make_orders(tables, f"untold_{point}")
    deployment = FlussDeployment(tmp_path, servers=fluss.bootstrap_servers)
    try:
        deployment.start_coordinator()
        deployment.write(tables, table, 0, COUNT)
        port = deployment.port
        deployment.coordinator.close()
        doomed = deployment.start_coordinator(port=port, crash_point=point)
        deployment.start_tierer("first")
        assert doomed.wait_ended(90) == -signal.SIGKILL
        assert deployment.recorded(table.path) is None
        deployment.start_coordinator(port=port)
        wait_for("the cluster is told", lambda: deployment.recorded(table.path) is not None)
        deployment.wait_tiered(table.path)
        deployment.assert_exact(table.path, COUNT)
        tables.drop(table)
    finally:
        deployment.close()


def test_a_record_that_the_cluster_lost_is_told_anew_by_a_round_without_news(
    deployment: FlussDeployment, tables: FlussTables, fluss: LocalFlussCluster
) -> None:
    """H1: until then neither Fluss's readers nor its committers can read the table's lake snapshot."""
    table = make_orders(tables, "lost")
    deployment.write(tables, table, 0, COUNT)
    deployment.start_tierer("first")
    deployment.wait_tiered(table.path)
    before = deployment.recorded(table.path)
    for file in (fluss.folder / "remote" / "lake" / "sales").glob(f"lost-{table.table_id}/metadata/*.offsets"):
        file.unlink()
    assert deployment.recorded(table.path) == UNREADABLE
    wait_for("the cluster is told anew", lambda: deployment.recorded(table.path) == before)
    deployment.assert_exact(table.path, COUNT)
    tables.drop(table)


def test_a_commit_of_another_service_is_an_error_that_names_it(deployment: FlussDeployment, tables: FlussTables) -> None:
    table = make_orders(tables, "foreign", buckets=1)
    deployment.write(tables, table, 0, COUNT)
    deployment.start_tierer("first")
    deployment.wait_tiered(table.path)
    lake = load_catalog("lake", **deployment.data.lake_properties).load_table(str(table.path))
    lake.append(lake.scan(limit=1).to_arrow(), snapshot_properties={"commit-user": "__fluss_lake_tiering", OFFSETS_KEY: "/gone"})
    tables.append(table, rows(COUNT, 1).to_batches())
    assert wait_for("the round fails", lambda: _failed(deployment, table.path)) == "ForeignTiering"
    assert "__fluss_lake_tiering" in (deployment.status(table.path).last_error or "")
    tables.drop(table)


def _failed(deployment: FlussDeployment, path: TablePath) -> str | None:
    try:
        status = deployment.status(path)
    except ValueError:
        return None
    return status.error_class if status.status == "Failed" else None


def _tiered_partitions(deployment: FlussDeployment, path: TablePath) -> dict[int | None, int]:
    marker = marker_of(deployment.data.lake_properties, path)
    buckets: dict[BucketKey, TieredRange] = {} if marker is None else dict(marker.buckets)
    return {bucket.partition_id: tiered.tiered for bucket, tiered in buckets.items()}
