"""`lakeward doctor --fluss` on a real cluster, and on none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.fluss_owner import opened_owner
from support.clusters.fluss_server import tablet_server_address
from support.clusters.fluss_tables import FlussTables
from support.clusters.scripted_fluss import EVERY_CALL, ScriptedFluss
from support.running.fluss_deployment import LAKE
from tiering.cli.doctor.findings import Verdict, findings
from tiering.cli.doctor.fluss import LAKE as LAKE_CHECK
from tiering.cli.doctor.fluss import cluster_servers, lake_of_cluster, shared_lake
from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cli.terminal.lake_options import NamedLake
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.registry import local_lake_properties
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey
from tiering.rpc.fluss import fluss_pb2 as pb

EVERY_CALL_BUT_SETTINGS = {key: versions for key, versions in EVERY_CALL.items() if key != 1045}


def lake_setting(lake_format: str) -> pb.PbDescribeConfig:
    return pb.PbDescribeConfig(config_key="datalake.format", config_value=lake_format, config_source="INITIAL_SERVER_CONFIG")


def test_each_server_is_reached(fluss: LocalFlussCluster) -> None:
    results = list(findings([("fluss", lambda: cluster_servers(fluss.bootstrap_servers))]))
    assert [finding.verdict for finding in results if "lake" not in finding.result] == [Verdict.OK] * 2
    assert fluss.bootstrap_servers in results[0].result
    assert tablet_server_address(fluss, 0) in results[1].result
    assert (results[-1].verdict, "datalake.format is iceberg" in results[-1].result) == (Verdict.OK, True)  # also without any table


def test_a_tablet_server_that_does_not_answer_and_one_that_lacks_a_call_are_named() -> None:
    """The coordinator of the cluster still lists both servers."""
    without_fetch_log = {key: versions for key, versions in EVERY_CALL.items() if key != 1015}
    with HeldPort() as unused, ScriptedFluss(without_fetch_log) as old:
        nodes = [("127.0.0.1", unused.number), ("127.0.0.1", int(old.address.rpartition(":")[2]))]

        def metadata(request: object) -> pb.MetadataResponse:
            coordinator = pb.PbServerNode(node_id=0, host="127.0.0.1", port=int(cluster.address.rpartition(":")[2]))
            servers = [pb.PbServerNode(node_id=number, host=host, port=port) for number, (host, port) in enumerate(nodes)]
            return pb.MetadataResponse(coordinator_server=coordinator, tablet_servers=servers)

        with ScriptedFluss(EVERY_CALL_BUT_SETTINGS, {1012: metadata, 1003: lambda request: pb.ListDatabasesResponse()}) as cluster:
            results = list(cluster_servers(cluster.address))
    assert [finding.verdict for finding in results] == [Verdict.OK, Verdict.FAIL, Verdict.FAIL, Verdict.WARN]
    assert f"tablet server 0 at {unused.address} cannot be reached" in results[1].result
    assert "does not support FetchLog (1015)" in results[2].result
    assert "it has no tables" in results[3].result


@pytest.mark.parametrize(
    ("answer", "verdict", "text"),
    [
        (pb.DescribeClusterConfigsResponse(configs=[lake_setting("iceberg")]), Verdict.OK, "datalake.format is iceberg"),
        (
            pb.DescribeClusterConfigsResponse(configs=[lake_setting("lance")]),
            Verdict.WARN,
            "its lake has the format lance; Lakeward writes",
        ),
        (pb.DescribeClusterConfigsResponse(), Verdict.WARN, "datalake.format is not set"),
        (pb.ErrorResponse(error_code=48, error_message="not yours to see"), Verdict.WARN, "it has no tables"),
    ],
)
def test_the_lake_plugin_is_told_from_the_clusters_settings(answer: pb.DescribeClusterConfigsResponse, verdict: Verdict, text: str) -> None:
    with ScriptedFluss(answers={1045: lambda request: answer, 1003: lambda request: pb.ListDatabasesResponse()}) as cluster:
        *_, lake = cluster_servers(cluster.address)
    assert (lake.verdict, text in lake.result) == (verdict, True)


def test_a_server_that_is_too_old_is_a_finding_that_names_the_call() -> None:
    with ScriptedFluss({key: versions for key, versions in EVERY_CALL.items() if key != 1052}) as server:
        [finding] = findings([("fluss", lambda: cluster_servers(server.address))])
    assert (finding.verdict, "PrepareLakeTableSnapshot (1052)" in finding.result) == (Verdict.FAIL, True)


def test_the_clusters_own_lake_is_told_from_another(fluss: LocalFlussCluster, tmp_path: Path) -> None:
    tables = FlussTables(fluss.bootstrap_servers)
    created = tables.create("looked_after", pa.schema([pa.field("id", pa.int64())]), properties=LAKE)
    right, wrong = (local_lake_properties(tmp_path / name) for name in ("right", "wrong"))
    for name in ("right", "wrong"):
        (tmp_path / name).mkdir()
    with opened_owner(fluss.bootstrap_servers, tmp_path / "memory") as owner:
        table = owner.table(created.path)
        owner.record_lake_snapshot(table, RecordedLakeSnapshot(7, {BucketKey(None, 0): 0}))
    IcebergLake(right).ensure_table(table)

    def verdicts(lake: dict[str, str]) -> list[Verdict]:
        return [finding.verdict for finding in findings([(LAKE_CHECK, lambda: lake_of_cluster(fluss.bootstrap_servers, NamedLake(lake)))])]

    assert verdicts(right) == [Verdict.OK, Verdict.OK]
    assert verdicts(wrong) == [Verdict.OK, Verdict.FAIL]
    tables.drop(created)
    tables.close()


def test_a_lake_that_no_option_names_is_reported() -> None:
    [finding] = shared_lake({})
    assert (finding.verdict, "no option and no service names the lake" in finding.result) == (Verdict.WARN, True)
    assert "--fluss-conf" in finding.mend


def test_a_cluster_that_is_not_there_is_a_finding_that_names_it() -> None:
    [finding] = findings([("fluss", lambda: cluster_servers("127.0.0.1:1"))])
    assert finding.verdict is Verdict.FAIL
    assert "127.0.0.1:1" in finding.result


@pytest.mark.parametrize(
    ("properties", "verdict", "text"),
    [
        ({"type": "hadoop", "warehouse": "/x"}, Verdict.WARN, "hadoop"),
        ({"type": "filesystem", "warehouse": "/x"}, Verdict.WARN, "Paimon"),
        ({"type": "hadoop", "warehouse": "hdfs://nn:8020/x"}, Verdict.OK, "HDFS"),
        ({"type": "sql", "uri": "sqlite:////x.db"}, Verdict.WARN, "SQLite"),
        ({"type": "sql", "uri": "postgresql+psycopg://db/lake"}, Verdict.OK, "type sql"),
        ({"type": "rest", "uri": "http://c"}, Verdict.OK, "type rest"),
    ],
)
def test_what_to_mind_of_a_lake_that_is_shared_with_jvms(properties: dict[str, str], verdict: Verdict, text: str) -> None:
    [finding] = shared_lake(properties)
    assert (finding.verdict, text in finding.result) == (verdict, True)
    assert bool(finding.mend) == (verdict is not Verdict.OK)
