"""A service of a real Fluss cluster as processes, and a Spark session that reads its tables through the plugin. A module shares them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.clusters.fluss_tables import FlussTables
from support.running.cluster_of_processes import started
from support.running.fluss_deployment import FlussDeployment
from support.running.spark_sessions import plugin_properties, spark_session
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster


@pytest.fixture(scope="module")
def tables(fluss: LocalFlussCluster) -> Iterator[FlussTables]:
    tables = FlussTables(fluss.bootstrap_servers)
    yield tables
    tables.close()


@pytest.fixture(scope="module")
def service(fluss: LocalFlussCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlussDeployment]:
    """A coordinator and a tierer. Most tables have a long freshness, so that rounds run only by `lakeward tier`."""
    with started(FlussDeployment(tmp_path_factory.mktemp("service"), servers=fluss.bootstrap_servers), tierer=True) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def fresh_spark(service: FlussDeployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the catalog of the lake."""
    with spark_session(tmp_path_factory.mktemp("warehouse"), plugin_properties(service)) as session:
        yield session
