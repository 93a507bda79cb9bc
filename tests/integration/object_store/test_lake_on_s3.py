"""The commands over a lake in S3 with a REST catalog: rounds, SQL, validation; with the catalog's keys, and with a process's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from support.faulty.deployment import ACCOUNTS, ORDERS
from support.object_store.deployment import DeploymentOnS3, on_s3
from support.object_store.rest_server import rest_catalog_server
from support.object_store.s3_server import S3Server
from support.running.spark_sessions import spark_session
from tiering.cli.service_lake import service_lake
from tiering.cli.spark.properties import catalog_lake_properties, catalog_properties, plugin_jar
from tiering.model.tables import TablePath

COUNT = 900
pytestmark = pytest.mark.in_turn("deployment")


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.soak)], ids=["vended keys", "own keys"])
def deployment(request: pytest.FixtureRequest, s3_store: S3Server, tmp_path: Path) -> Iterator[DeploymentOnS3]:
    folder = tmp_path / "catalog"
    folder.mkdir()
    (tmp_path / "ours").mkdir()
    with rest_catalog_server(folder, s3_store, vends=request.param) as catalog:
        deployment = on_s3(tmp_path / "ours", catalog)
        try:
            deployment.start_coordinator()
            yield deployment
        finally:
            deployment.close()


@pytest.fixture
def spark(deployment: DeploymentOnS3, tmp_path: Path) -> Iterator[SparkSession]:
    """A session with the properties of `lakeward spark-conf --lake`, and with the keys only if no server vends them."""
    properties = {
        **catalog_properties(deployment.uri, plugin_jar()),
        **catalog_lake_properties(service_lake(deployment.uri).properties),
        **{f"spark.sql.catalog.lake.{name}": value for name, value in deployment.catalog.secrets.items()},
    }
    with spark_session(tmp_path, properties) as session:
        yield session


def test_rounds_of_a_log_table_are_exact_and_leave_no_key_behind(deployment: DeploymentOnS3) -> None:
    orders = TablePath("sales", "orders_vended" if deployment.catalog.vends else "orders_own")
    deployment.create(orders)
    deployment.append(orders, 0, COUNT)
    deployment.start_tierer("first")
    deployment.wait_tiered(orders)
    deployment.append(orders, COUNT, COUNT)
    deployment.wait_tiered(orders)
    deployment.assert_exact(orders, 2 * COUNT)
    assert any(name.endswith(".parquet") for name in deployment.catalog.store.files("warehouse/sales"))
    deployment.assert_no_secret_left()


@pytest.mark.soak
def test_sql_reads_both_kinds_of_tables_and_validation_finds_no_difference(deployment: DeploymentOnS3, spark: SparkSession) -> None:
    deployment.make_tables()
    deployment.write()
    deployment.start_inline_tierer("first")
    deployment.settle()
    deployment.write()
    deployment.settle()

    orders = spark.sql(f"SELECT id FROM fluss.{ORDERS}").collect()
    assert sorted(row.id for row in orders) == list(range(deployment.written))
    accounts = spark.sql(f"SELECT id, text FROM fluss.{ACCOUNTS}").collect()
    assert {row.id: row.text for row in accounts} == deployment.accounts
    for path in (ORDERS, ACCOUNTS):
        deployment.validate(path)
    deployment.assert_no_secret_left()


@pytest.mark.soak
def test_validation_names_a_file_that_was_removed_from_s3(deployment: DeploymentOnS3) -> None:
    deployment.make_tables()
    deployment.write()
    deployment.start_inline_tierer("first")
    deployment.settle()
    store = deployment.catalog.store
    location = load_catalog("lake", **deployment.lake_properties).load_table(str(ORDERS)).location()
    removed = next(file for file in store.files(location.split("/", 3)[3]) if file.endswith(".parquet"))
    store.file_system().delete_file(removed)
    printed = deployment.lakeward("validate", str(ORDERS), status=1)
    assert f"s3://{removed}" in printed
