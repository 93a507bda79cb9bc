"""A cluster whose lake is another one than ours: it can be connected, and everything that is asked says why a table is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.fluss_owner import CLUSTER_ID, opened_owner
from support.clusters.fluss_tables import FlussTables
from support.fluss_paimon.flink_tiering import FlinkTiering
from support.running.cluster_of_processes import Deployment
from support.running.fluss_deployment import LAKE
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableInfo

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])


@pytest.fixture
def tiered(fluss_on_paimon: LocalFlussCluster, tables: FlussTables, flink: FlinkTiering, tmp_path: Path) -> Iterator[TableInfo]:
    """A table that Fluss's own service tiered, and told the cluster of."""
    table = tables.create("of_flink", SCHEMA, properties=LAKE)
    tables.append(table, [pa.RecordBatch.from_pydict({"id": [1, 2], "text": ["a", "b"]}, schema=SCHEMA)])
    flink.plan(tables, table)
    flink.write(0, [(0, "APPEND_ONLY", [1, "a"]), (1, "APPEND_ONLY", [2, "b"])])
    with opened_owner(fluss_on_paimon.bootstrap_servers, tmp_path / "flink") as owner:
        owner.record_lake_snapshot(owner.table(table.path), RecordedLakeSnapshot(flink.commit(), {BucketKey(None, 0): 2}))
    yield table
    tables.drop(table)


def test_a_cluster_with_another_lake_is_connected_and_its_tables_are_left_with_a_reason(
    fluss_on_paimon: LocalFlussCluster, tiered: TableInfo, tmp_path: Path
) -> None:
    deployment = Deployment(tmp_path)
    try:
        deployment.start_coordinator("--fluss", fluss_on_paimon.bootstrap_servers, "--fluss-cluster-id", CLUSTER_ID)
        status = deployment.status(tiered.path)
        assert (status.lake_format, status.last_error) == ("paimon", None)
        assert status.status_reason == "left to other tiering services: its lake format is paimon, and this service writes iceberg"
        validated = deployment.lakeward("validate", str(tiered.path), status=2)
        assert "the lake copy of sales.of_flink is of the format paimon, and this version validates iceberg" in validated
        for catalog, refusal in (
            ("lake", "its copy is of the format paimon"),
            ("fluss", "so its lake table was dropped, or this is another lake"),
        ):
            answer = deployment.lakeward("sql", "--engine", "duckdb", f"SELECT * FROM {catalog}.{tiered.path}", status=1)
            assert refusal in answer, answer
            assert "Traceback" not in answer
    finally:
        deployment.close()
