"""A cluster whose lake is Paimon, as a deployment of processes: with its options it is tiered to; without them everything that is asked
says why a table is left alone."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.fluss_owner import CLUSTER_ID, opened_owner
from support.clusters.fluss_tables import FlussTables
from support.fluss_paimon.flink_tiering import FlinkTiering
from support.lakes.paimon_kit import PaimonKit
from support.running.cluster_of_processes import Deployment
from support.running.fluss_deployment import LAKE
from support.running.processes import wait_for
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableInfo

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])


@pytest.fixture
def tiered(fluss_on_paimon: LocalFlussCluster, tables: FlussTables, flink: FlinkTiering, tmp_path: Path) -> Iterator[TableInfo]:
    """A table that Fluss's own service tiered, and told the cluster of."""
    table = tables.create(f"of_flink_{uuid.uuid4().hex[:8]}", SCHEMA, properties=LAKE)
    tables.append(table, [pa.RecordBatch.from_pydict({"id": [1, 2], "text": ["a", "b"]}, schema=SCHEMA)])
    flink.plan(tables, table)
    flink.write(0, [(0, "APPEND_ONLY", [1, "a"]), (1, "APPEND_ONLY", [2, "b"])])
    with opened_owner(fluss_on_paimon.bootstrap_servers, tmp_path / "flink") as owner:
        owner.record_lake_snapshot(owner.table(table.path), RecordedLakeSnapshot(flink.commit(), {BucketKey(None, 0): 2}))
    yield table
    tables.drop(table)


@pytest.mark.soak
def test_with_fluss_conf_a_table_of_flinks_goes_on(
    fluss_on_paimon: LocalFlussCluster, tiered: TableInfo, tables: FlussTables, tmp_path: Path
) -> None:
    deployment = Deployment(tmp_path)
    servers, conf = fluss_on_paimon.bootstrap_servers, str(fluss_on_paimon.server_yaml)
    try:
        deployment.start_coordinator("--fluss", servers, "--fluss-cluster-id", CLUSTER_ID, "--fluss-conf", conf)
        looks = deployment.lakeward("doctor", "--fluss", servers, "--fluss-conf", conf, "--data", str(deployment.data.root))
        assert "it has tables that the cluster reports as tiered" in looks
        assert "a Paimon warehouse in a folder" in looks
        tables.append(tiered, [pa.RecordBatch.from_pydict({"id": [3], "text": ["c"]}, schema=SCHEMA)])
        deployment.start_tierer("of-paimon")
        kit = PaimonKit(fluss_on_paimon.folder, "warehouse")
        wait_for("the third row is in the lake", lambda: len(kit.read(tiered)) == 3, 120)
        rows = sorted((row["__offset"], row["id"], row["text"]) for row in kit.read(tiered).to_pylist())
        assert rows == [(0, 1, "a"), (1, 2, "b"), (2, 3, "c")]
        query = f"SELECT count(*) * 1000 AS n FROM fluss.{tiered.path}"
        assert "3000" in deployment.lakeward("sql", "--engine", "duckdb", query)
        deployment.lakeward("validate", str(tiered.path), "--level", "offsets")
        assert '"type": "filesystem"' in deployment.lakeward("lake-conf")
        assert "lakeward sql --engine duckdb" in deployment.lakeward("lake-conf", "--for", "spark", status=2)
    finally:
        deployment.close()


@pytest.mark.soak
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
        assert f"the lake copy of {tiered.path} is of the format paimon, and this version validates iceberg" in validated
        for catalog, refusal in (
            ("lake", "its copy is of the format paimon"),
            ("fluss", "so its lake table was dropped, or this is another lake"),
        ):
            answer = deployment.lakeward("sql", "--engine", "duckdb", f"SELECT * FROM {catalog}.{tiered.path}", status=1)
            assert refusal in answer, answer
            assert "Traceback" not in answer
    finally:
        deployment.close()
