"""`fluss.db.t`: rows of lake and log, through the plugin."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from support.running.cluster_of_processes import Deployment
from tiering.cli.spark.properties import CATALOG
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")
PLAIN = TablePath("sales", "plain")
PLAIN_NAME = f"{CATALOG}.{PLAIN}"


def count(spark: SparkSession, table: object) -> int:
    [row] = spark.sql(f"SELECT count(*) AS total FROM {table}").collect()
    return int(row.total)


def plan_of(spark: SparkSession, statement: str) -> str:
    [row] = spark.sql(f"EXPLAIN FORMATTED {statement}").collect()
    return str(row.plan)


def tiered_and_appended(service: Deployment, path: TablePath, tiered: int, appended: int) -> None:
    """Creates the table with the rows `0 .. tiered + appended - 1`, of which the lake has the first."""
    service.create(path, freshness="1 h")
    service.append(path, 0, tiered)
    service.lakeward("tier", str(path))
    if appended:
        service.append(path, tiered, appended)


def test_a_statement_has_each_row_of_lake_and_log_once(service: Deployment, fresh_spark: SparkSession) -> None:
    service.create(ORDERS, freshness="1 h")
    service.append(ORDERS, 0, 60)
    assert count(fresh_spark, f"{CATALOG}.{ORDERS}") == 60
    service.lakeward("tier", str(ORDERS))
    service.append(ORDERS, 60, 30)

    frame = fresh_spark.table(f"{CATALOG}.{ORDERS}")

    assert sorted(row.id for row in frame.collect()) == list(range(90))
    service.append(ORDERS, 90, 10)
    assert frame.count() == 100  # a classic DataFrame plans its scans each time it runs
    assert [row.text for row in frame.where("id = 95").select("text").collect()] == ["row 95"]
    assert [row.text for row in frame.where("id = 5").select("text").collect()] == ["row 5"]


def test_the_lake_part_is_the_scan_of_iceberg_and_the_log_part_a_scan_of_its_own(service: Deployment, fresh_spark: SparkSession) -> None:
    path = TablePath("sales", "united")
    tiered_and_appended(service, path, 60, 0)
    only_lake = plan_of(fresh_spark, f"SELECT id FROM {CATALOG}.{path} WHERE id > 3")
    assert "IcebergScan" in only_lake
    assert "LakewardScan" not in only_lake
    service.append(path, 60, 9)

    both = plan_of(fresh_spark, f"SELECT id FROM {CATALOG}.{path} WHERE id > 3")

    assert "Union" in both
    assert "IcebergScan" in both
    assert "LakewardScan(LOG_ROWS" in both
    assert "log records 9 in 3 buckets" in both
    assert sorted(row.id for row in fresh_spark.sql(f"SELECT id FROM {CATALOG}.{path} WHERE id > 3").collect()) == list(range(4, 69))


def test_the_lake_copy_has_a_name_of_its_own(service: Deployment, fresh_spark: SparkSession) -> None:
    path = TablePath("sales", "copied")
    tiered_and_appended(service, path, 60, 30)

    assert count(fresh_spark, f"{CATALOG}.sales.`copied$lake`") == 60
    assert count(fresh_spark, f"{CATALOG}.sales.copied") == 90
    [snapshot] = fresh_spark.sql("SELECT snapshot_id FROM lake.sales.copied.snapshots").collect()
    assert count(fresh_spark, f"{CATALOG}.sales.copied VERSION AS OF {snapshot.snapshot_id}") == 60
    assert count(fresh_spark, f"{CATALOG}.sales.copied TIMESTAMP AS OF now()") == 60


def test_describe_knows_all_three_names(service: Deployment, fresh_spark: SparkSession) -> None:
    path = TablePath("sales", "named")
    tiered_and_appended(service, path, 6, 3)

    columns = {
        name: [row.col_name for row in fresh_spark.sql(f"DESCRIBE {CATALOG}.sales.`{name}`").collect()]
        for name in ("named", "named$lake", "named$changelog")
    }

    assert columns["named"][:2] == columns["named$lake"][:2] == ["id", "text"]
    assert columns["named$changelog"][:5] == ["_change_type", "_log_offset", "_commit_timestamp", "id", "text"]
    assert "named" in [row.tableName for row in fresh_spark.sql(f"SHOW TABLES IN {CATALOG}.sales").collect()]
    assert not [row for row in fresh_spark.sql(f"SHOW TABLES IN {CATALOG}.sales").collect() if "$" in row.tableName]


def test_an_unknown_table_is_an_error_for_each_name(fresh_spark: SparkSession) -> None:
    for name in ("nothing", "nothing$lake", "nothing$changelog"):
        with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
            fresh_spark.sql(f"SELECT * FROM {CATALOG}.sales.`{name}`")


@pytest.fixture(scope="module")
def plain(service: Deployment, fresh_spark: SparkSession) -> SparkSession:
    """A session, and the table `sales.plain` with 60 rows in the lake and 30 in the log."""
    tiered_and_appended(service, PLAIN, 60, 30)
    return fresh_spark


def test_a_small_table_is_broadcast(plain: SparkSession) -> None:
    plan = plan_of(plain, f"SELECT r.id FROM range(1000000000) r JOIN {PLAIN_NAME} t ON r.id = t.id")

    assert "BroadcastHashJoin" in plan
    assert "SortMergeJoin" not in plan


def test_a_sample_is_of_all_rows(plain: SparkSession) -> None:
    assert count(plain, f"{PLAIN_NAME} TABLESAMPLE (100 PERCENT)") == 90
    assert count(plain, f"{PLAIN_NAME} TABLESAMPLE (0 PERCENT)") == 0


def test_only_the_lake_copy_has_the_places_of_records(plain: SparkSession) -> None:
    assert plain.sql(f"SELECT max(__offset) AS last FROM {CATALOG}.sales.`plain$lake`").first().last is not None  # type: ignore[union-attr]
    with pytest.raises(PySparkException, match="UNRESOLVED_COLUMN"):
        plain.sql(f"SELECT __offset FROM {PLAIN_NAME}")
