"""The shop in a service of real processes, with Spark and DuckDB as `lakeward sql` runs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from support.running.cluster_of_processes import Deployment, started
from support.running.spark_sessions import end_jvm
from support.slt.shop import open_shop
from tiering.cli.spark.properties import catalog_lake_properties
from tiering.cli.sql.engine import Engine
from tiering.cli.sql.service_engine import ServiceDuckDbEngine
from tiering.cli.sql.spark_engine import SparkEngine

SMALL = {"spark.sql.shuffle.partitions": "1", "spark.driver.extraJavaOptions": "-XX:ReservedCodeCacheSize=160m"}
"""One task for each of the small answers. The code of 300 queries does not fit the JVM's default of 48 MB."""


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The service, with the tables of `support.slt.shop`."""
    with started(Deployment(tmp_path_factory.mktemp("shop")), tierer=True) as deployment:
        open_shop(deployment)
        yield deployment


@pytest.fixture(scope="package")
def engines(service: Deployment) -> Iterator[Mapping[str, Engine]]:
    """The engines by the values of `--engine`."""
    end_jvm()
    spark = SparkEngine(service.uri, "local[2]", {**catalog_lake_properties(service.lake_properties), **SMALL})
    duckdb = ServiceDuckDbEngine(service.uri)
    try:
        yield {"spark": spark, "duckdb": duckdb}
    finally:
        duckdb.close()
        end_jvm()
