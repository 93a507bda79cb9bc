"""Rounds of a real Fluss cluster, of which this deployment is the only tiering service, while its tables change."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from support.clusters.fluss_tables import FlussTables
from support.fresh.served_read import served_read
from support.lakes.lake_proof import lake_rows, marker_of
from support.running.cluster_of_processes import rows, started
from support.running.fluss_deployment import LAKE, FlussDeployment, make_orders
from support.running.processes import wait_for
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.errors import LakeDisabled
from tiering.lake.base import FLUSS_OFFSETS_KEY
from tiering.lake.marker import TieredRange
from tiering.model.tables import BucketKey, BucketOffsets, TableInfo, TablePath

COUNT = 300


@pytest.fixture
def deployment(fluss: LocalFlussCluster, tmp_path: Path) -> Iterator[FlussDeployment]:
    """A coordinator that runs; tierers are the test's."""
    with started(FlussDeployment(tmp_path, servers=fluss.bootstrap_servers)) as deployment:
        yield deployment


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
    assert Path(str(head.summary[FLUSS_OFFSETS_KEY])).is_file()
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
    deployment.wait_tiered(table.path)  # the lake has the round before the cluster is told: at rest means that it was
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


@pytest.mark.soak
def test_a_table_made_anew_under_its_name_is_not_taken_for_the_former_one(deployment: FlussDeployment, tables: FlussTables) -> None:
    table = make_orders(tables, "anew")
    deployment.write(tables, table, 0, COUNT)
    deployment.start_tierer("first")
    deployment.wait_tiered(table.path)
    again = make_orders(tables, "anew")
    tables.append(again, rows(0, 10).to_batches())
    # A round of the former table may end first, for its table is gone.
    wait_for("the new table's round fails", lambda: _failed(deployment, again.path) == "TableMismatch")
    assert lake_rows(deployment.data.lake_properties, table.path).num_rows == COUNT
    assert deployment.recorded(again.path) is None
    tables.drop(again)


@pytest.mark.soak
def test_tables_that_cannot_be_tiered_are_shown_with_the_reason(deployment: FlussDeployment, tables: FlussTables) -> None:
    """One of a lake format that is not there, and one whose log retention cut: Fluss spares what the lake lacks, while it is enabled."""
    elsewhere = make_orders(tables, "elsewhere", buckets=1, datalake_format="lance")
    deployment.write(tables, elsewhere, 0, 10)
    table = make_orders(tables, "retained", buckets=1, log_ttl="1 s", log_arrow_compression_type="NONE")
    deployment.write(tables, table, 0, COUNT)
    deployment.start_tierer("first")
    deployment.wait_tiered(table.path)
    tables.set_option(table, "table.datalake.enabled", "false")
    wait_for("no round tiers what comes now", lambda: table.path not in deployment.visible_tables())
    for start in range(COUNT, COUNT + 20_000, 1_000):
        tables.append(table, rows(start, 1_000).to_batches())
    log = BucketLog(tables.client, table.path, table.table_id, BucketKey(None, 0))
    wait_for("retention cuts the log", lambda: log.bounds().log_start > COUNT)
    with served_read(deployment.uri, table.path) as read, pytest.raises(LakeDisabled, match="of bucket 0 are only in its lake copy"):
        read.rows()
    tables.set_option(table, "table.datalake.enabled", "true")
    wait_for("the table is parked", lambda: _failed(deployment, table.path) == "LogTruncated")
    status = deployment.status(table.path)
    assert status.last_error is not None
    assert f"the lake is tiered up to offset {COUNT}, but the log now starts at " in status.last_error
    assert not status.error_retryable
    assert lake_rows(deployment.data.lake_properties, table.path).num_rows == COUNT
    assert_continues_behind_the_gap(deployment, table, log.bounds())
    assert _failed(deployment, elsewhere.path) == "InvalidArgument"
    status = deployment.status(elsewhere.path)
    expected = "the lake format is lance, but the lake of this service has the format iceberg"
    assert (status.lake_format, status.last_error, status.error_retryable) == ("lance", expected, False)
    for parked in (table, elsewhere):
        tables.drop(parked)


def assert_continues_behind_the_gap(deployment: FlussDeployment, table: TableInfo, log: BucketOffsets) -> None:
    """`accept` leaves out what Fluss cut, and validation remembers it."""
    printed = deployment.lakeward("reconcile", str(table.path), "accept", "--format", "csv")
    assert f",{log.log_start - COUNT}," in printed, printed
    deployment.wait_tiered(table.path)
    assert lake_rows(deployment.data.lake_properties, table.path).num_rows == COUNT + log.log_end - log.log_start
    validated = deployment.lakeward("validate", str(table.path), "--level", "rows", "--format", "csv")
    assert f"left out the records {COUNT} to {log.log_start - 1}, which neither log nor lake had any more" in validated
    assert "false" not in validated


@pytest.mark.soak
def test_a_primary_key_table_whose_log_was_cut_begins_again_with_its_kv_snapshots(deployment: FlussDeployment, tables: FlussTables) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
    options = {**LAKE, "table.log.ttl": "1s", "table.log.arrow.compression.type": "NONE"}
    table = tables.create("retained_keys", schema, ["id"], properties=options)
    tables.upsert(table, ({"id": number, "text": "first"} for number in range(100)))
    deployment.wrote()
    deployment.start_tierer("first")
    deployment.wait_tiered(table.path)
    [tiered] = [entry.tiered for entry in marker_of(deployment.data.lake_properties, table.path).buckets.values()]  # type: ignore[union-attr]
    tables.set_option(table, "table.datalake.enabled", "false")
    wait_for("no round tiers what comes now", lambda: table.path not in deployment.visible_tables())
    tables.delete(table, ({"id": number} for number in range(10)))
    log = BucketLog(tables.client, table.path, table.table_id, BucketKey(None, 0))
    for number in itertools.count():
        tables.upsert(table, ({"id": key, "text": f"{number} {'x' * 200}"} for key in range(50, 550)))
        if log.bounds().log_start > tiered:
            break
    tables.set_option(table, "table.datalake.enabled", "true")
    wait_for("the table is parked", lambda: _failed(deployment, table.path) == "LogTruncated")
    statement = f"CALL fluss.sys.reconcile_lake('{table.path}', 'retier')"
    wait_for("the statement that helps is named", lambda: deployment.status(table.path).next_action == statement)
    deployment.lakeward("reconcile", str(table.path), "retier")
    deployment.wrote()
    deployment.wait_tiered(table.path)
    in_lake = lake_rows(deployment.data.lake_properties, table.path).select(["id", "text"]).sort_by("id").to_pylist()
    assert in_lake == sorted(tables.rows(table), key=lambda row: int(row["id"]))
    assert "false" not in deployment.lakeward("validate", str(table.path), "--level", "rows", "--format", "csv")
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
