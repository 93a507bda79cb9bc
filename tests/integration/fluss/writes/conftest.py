"""A service of a real Fluss cluster as processes, and a Spark session that writes its tables through the plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.running.cluster_of_processes import started
from support.running.fluss_deployment import FlussDeployment
from support.running.spark_sessions import plugin_properties, spark_session
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster


@pytest.fixture(scope="module")
def spark(fluss: LocalFlussCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("service")
    with (
        started(FlussDeployment(folder, servers=fluss.bootstrap_servers)) as deployment,
        spark_session(tmp_path_factory.mktemp("warehouse"), plugin_properties(deployment)) as session,
    ):
        yield session
