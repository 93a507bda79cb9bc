"""Primary-key tables and `t$changelog` through the plugin."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support.fresh.stock import CHANGES_OF_TWO_KEYS, fill_stock
from support.running.cluster_of_processes import KEYED, Deployment
from tiering.cli.spark.properties import CATALOG
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TablePath

STOCK = TablePath("sales", "stock")
NAME = f"{CATALOG}.{STOCK}"
BALANCES = TablePath("sales", "balances")


def upsert(service: Deployment, keys: range, text: str, path: TablePath = STOCK) -> None:
    with service.cluster() as cluster:
        rows = pa.table({"id": keys, "text": [f"{text} {key}" for key in keys]}, schema=KEYED)
        cluster.upsert(path, rows, f"{text}-{keys.start}", 0)


def delete(service: Deployment, keys: range) -> None:
    with service.cluster() as cluster:
        cluster.delete(STOCK, pa.table({"id": keys}, schema=pa.schema([KEYED.field("id")])), f"deletes-{keys.start}", 0)


@pytest.fixture(scope="module")
def stock(service: Deployment) -> dict[int, str]:
    """The rows of a table whose keys 0 to 29 are in the lake; some of them were changed or deleted since, and others were added."""
    service.create_keyed(STOCK)
    return fill_stock(partial(upsert, service), partial(delete, service), lambda: service.lakeward("tier", str(STOCK)))


def test_the_last_change_of_a_key_replaces_its_row_in_the_lake(fresh_spark: SparkSession, stock: dict[int, str]) -> None:
    rows = fresh_spark.sql(f"SELECT id, text FROM {NAME}").collect()
    assert sorted((row.id, row.text) for row in rows) == sorted(stock.items())
    [row] = fresh_spark.sql(f"SELECT count(*) AS total FROM {NAME}").collect()
    assert row.total == len(stock)
    [row] = fresh_spark.sql(f"SELECT count(*) AS total FROM {CATALOG}.sales.`stock$lake`").collect()
    assert row.total == 30


def test_a_small_primary_key_table_is_broadcast(fresh_spark: SparkSession, stock: dict[int, str]) -> None:
    join = f"SELECT s.text FROM range(1000000000) r JOIN {NAME} s ON r.id = s.id"
    [row] = fresh_spark.sql(f"EXPLAIN {join}").collect()
    assert "BroadcastHashJoin" in row.plan
    assert "SortMergeJoin" not in row.plan


def test_a_table_that_begins_with_kv_snapshots_has_no_known_size(service: Deployment, fresh_spark: SparkSession) -> None:
    with service.cluster() as cluster:
        cluster.create_database(BALANCES.database_name, ignore_if_exists=True)
        cluster.create_table(BALANCES, TableSpec(KEYED, 2, properties={"table.datalake.enabled": "false"}, primary_key=("id",)))
    upsert(service, range(30), "old", BALANCES)
    with service.cluster() as cluster:
        cluster.take_kv_snapshots(BALANCES)
    upsert(service, range(3), "new", BALANCES)
    join = f"SELECT s.text FROM range(1000000000) r JOIN {CATALOG}.{BALANCES} s ON r.id = s.id"

    [plan] = fresh_spark.sql(f"EXPLAIN {join}").collect()

    assert "no lake snapshot, KV snapshots of 2 buckets, log records 6 in " in plan.plan
    assert "SortMergeJoin" in plan.plan
    assert fresh_spark.sql(join.replace("1000000000", "30")).count() == 30


@pytest.mark.parametrize(
    "condition", ["text = 'old 3'", "text LIKE 'old%'", "id = 3", "id = 22", "id > 28", "text IS NULL", "text = 'new 7'"]
)
def test_a_condition_sees_only_the_last_row_of_a_key(fresh_spark: SparkSession, stock: dict[int, str], condition: str) -> None:
    everything = fresh_spark.createDataFrame(list(stock.items()), "id BIGINT, text STRING")

    rows = fresh_spark.sql(f"SELECT id, text FROM {NAME} WHERE {condition}").collect()

    assert sorted(rows) == sorted(everything.where(condition).collect())


@pytest.mark.parametrize("column", ["id", "text"])
def test_one_column_has_the_values_of_all_rows(fresh_spark: SparkSession, stock: dict[int, str], column: str) -> None:
    values = [row[0] for row in fresh_spark.sql(f"SELECT {column} FROM {NAME}").collect()]
    assert sorted(values) == sorted(stock) if column == "id" else sorted(values) == sorted(stock.values())


def test_a_limit_returns_rows_of_the_table(fresh_spark: SparkSession, stock: dict[int, str]) -> None:
    for limit in (1, 25, 100):
        rows = fresh_spark.sql(f"SELECT id, text FROM {NAME} LIMIT {limit}").collect()
        assert len(rows) == min(limit, len(stock))
        assert {(row.id, row.text) for row in rows} <= set(stock.items())


def test_the_plan_of_a_changelog_does_not_name_the_records_behind_the_lake_alone(fresh_spark: SparkSession, stock: dict[int, str]) -> None:
    [plan] = fresh_spark.sql(f"EXPLAIN SELECT * FROM {CATALOG}.sales.`stock$changelog`").collect()
    assert "LakewardScan(CHANGELOG, whole log up to the moment of the read)" in plan.plan


def test_the_changelog_has_each_change_with_its_kind(fresh_spark: SparkSession, stock: dict[int, str]) -> None:
    rows = fresh_spark.sql(f"SELECT _change_type, id, text FROM {CATALOG}.sales.`stock$changelog` WHERE id IN (3, 22)").collect()
    assert sorted((row.id, row._change_type, row.text) for row in rows) == CHANGES_OF_TWO_KEYS
