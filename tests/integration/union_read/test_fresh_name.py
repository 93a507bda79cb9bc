"""`fluss.db.t` with the catalog option `plain-name` = fresh: rows of lake and log, through the plugin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from support.running.cluster_of_processes import Deployment
from support.running.spark_sessions import spark_session
from tiering.cli.spark.properties import CATALOG, catalog_properties, plugin_jar
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    deployment = Deployment(tmp_path_factory.mktemp("service"))
    try:
        deployment.start_coordinator()
        deployment.start_inline_tierer("tierer")
        yield deployment
    finally:
        deployment.close()


@pytest.fixture(scope="module")
def spark(service: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session without the lake's catalog."""
    properties = {**catalog_properties(service.uri, plugin_jar()), f"spark.sql.catalog.{CATALOG}.plain-name": "fresh"}
    with spark_session(tmp_path_factory.mktemp("warehouse"), properties) as session:
        yield session


def count(spark: SparkSession, table: object) -> int:
    [row] = spark.sql(f"SELECT count(*) AS total FROM {table}").collect()
    return int(row.total)


def test_a_statement_has_each_row_of_lake_and_log_once(service: Deployment, spark: SparkSession) -> None:
    service.create(ORDERS, freshness="1 h")
    service.append(ORDERS, 0, 60)
    assert count(spark, f"{CATALOG}.{ORDERS}") == 60
    service.lakeward("tier", str(ORDERS))
    service.append(ORDERS, 60, 30)

    frame = spark.table(f"{CATALOG}.{ORDERS}")

    assert sorted(row.id for row in frame.collect()) == list(range(90))
    service.append(ORDERS, 90, 10)
    assert frame.count() == 100  # a classic DataFrame plans its scans each time it runs
    assert [row.text for row in frame.where("id = 95").select("text").collect()] == ["row 95"]
