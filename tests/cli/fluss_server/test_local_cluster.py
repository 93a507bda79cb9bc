"""A Fluss cluster on this machine: its jars, a boot that fails, and the real Iceberg plugin."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.fluss_tables import FlussTables
from tiering.cli.fluss_server.configuration import ClusterSettings
from tiering.cli.fluss_server.jars import ICEBERG_PLUGIN_JARS, SERVER_JARS, plugins_folder, server_class_path, server_folder
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster, local_cluster
from tiering.cli.maven_jars import checksum
from tiering.errors import SetupError

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


def test_setup_has_fetched_the_jars_whose_checksums_are_committed() -> None:
    assert [checksum(server_folder() / jar.file_name) for jar in SERVER_JARS] == [jar.sha256 for jar in SERVER_JARS]
    plugin = plugins_folder() / "iceberg"
    assert [checksum(plugin / jar.file_name) for jar in ICEBERG_PLUGIN_JARS] == [jar.sha256 for jar in ICEBERG_PLUGIN_JARS]


def test_jars_that_were_not_fetched_are_an_error_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEWARD_JARS", str(tmp_path))

    with pytest.raises(SetupError, match=r"fluss-server-.*\.jar, which a Fluss cluster on this machine needs, is not in") as raised:
        server_class_path()
    assert "lakeward fetch-jars --fluss-server" in raised.value.hint


def test_a_server_that_does_not_start_is_told_with_its_log(tmp_path: Path) -> None:
    cluster = LocalFlussCluster(tmp_path / "cluster", ClusterSettings(server_properties={"default.bucket.number": "many"}))
    try:
        with pytest.raises(SetupError, match=r"coordinator of the Fluss cluster ended: (?s:.*)many") as raised:
            cluster.start()
    finally:
        cluster.close()
    assert str(cluster.coordinator.log) in raised.value.hint
    assert not cluster.zookeeper.is_running
    assert not any(process.is_running for process in cluster.tablet_servers.values())


@pytest.mark.soak
@pytest.mark.integration
def test_the_real_iceberg_plugin_makes_the_lake_table(tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    settings = ClusterSettings(plugins_folder(), {"type": "hadoop", "warehouse": str(warehouse)})

    with local_cluster(tmp_path / "cluster", settings) as cluster:
        tables = FlussTables(cluster.bootstrap_servers)
        try:
            tables.create("orders", SCHEMA, properties={"table.datalake.enabled": "true"})
        finally:
            tables.close()

    assert [file.name for file in (warehouse / "sales" / "orders" / "metadata").glob("*.metadata.json")] == ["v1.metadata.json"]
