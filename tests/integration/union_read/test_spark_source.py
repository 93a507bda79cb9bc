"""The Spark data source `lakeward`: rows of the lake and of the log in one answer, each once, as of the planning of the read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from support.fresh.needed_segments import only_segments
from support.running.cluster_of_processes import Deployment
from support.running.spark_sessions import spark_session
from tiering.model.tables import TablePath

ORDERS = TablePath("sales", "orders")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session without the plugin."""
    with spark_session(tmp_path_factory.mktemp("warehouse"), {}) as session:
        yield session


def load(spark: SparkSession, service: Deployment, path: TablePath) -> DataFrame:
    return spark.read.format("lakeward").option("table", str(path)).option("uri", service.uri).load()


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


def test_a_read_has_each_row_of_lake_and_log_once_as_of_its_planning(service: Deployment, spark: SparkSession) -> None:
    service.create(ORDERS, freshness="1 h")
    service.append(ORDERS, 0, 60)
    before_the_first_round = load(spark, service, ORDERS)
    assert ids(before_the_first_round) == list(range(60))
    service.lakeward("tier", str(ORDERS))
    service.append(ORDERS, 60, 30)

    planned = load(spark, service, ORDERS)
    assert ids(planned) == list(range(90))

    service.append(ORDERS, 90, 10)
    service.lakeward("tier", str(ORDERS))
    assert ids(planned) == list(range(90))
    assert ids(load(spark, service, ORDERS)) == list(range(100))
    assert load(spark, service, ORDERS).where("id = 95").select("text").first() == ("row 95",)


def test_an_unknown_table_is_an_error_with_its_class(service: Deployment, spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match=r"\[UnknownTable\].*sales\.nothing"):
        load(spark, service, TablePath("sales", "nothing"))


@pytest.mark.parametrize("enabled", [True, False])
def test_filters_reach_the_tasks_where_spark_pushes_them(service: Deployment, spark: SparkSession, enabled: bool) -> None:
    path = TablePath("sales", f"filtered_{enabled}".lower())
    service.create(path, freshness="1 h")
    service.append(path, 0, 60)
    service.lakeward("tier", str(path))
    service.append(path, 60, 30)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", enabled)
    spark.conf.set("spark.sql.adaptive.enabled", False)

    frame = load(spark, service, path).where("id IN (3, 72) AND text LIKE 'row%'").select("text")

    assert sorted(row.text for row in frame.collect()) == ["row 3", "row 72"]
    scan = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert scan.metrics().apply("numOutputRows").value() == (2 if enabled else 90)
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


VISITS = pa.schema([pa.field("day", pa.date32(), nullable=False), pa.field("visited", pa.date32()), pa.field("tiny", pa.int8())])


def test_conditions_on_dates_and_narrow_integers_reach_the_tasks(service: Deployment, spark: SparkSession) -> None:
    path, days = TablePath("sales", "visits"), [date.min, date(1970, 1, 1), date.max]
    rows = [
        {"day": day, "visited": date(2026, 1, 1) + timedelta(number) if number else None, "tiny": number}
        for day in days
        for number in range(10)
    ]
    service.create(path, "1 h", VISITS, 1, None, partition_keys=("day",))
    with service.cluster() as cluster:
        for number in range(2):
            cluster.append(path, pa.Table.from_pylist(rows, VISITS), "w", number)
            service.lakeward("tier", str(path)) if not number else None
    spark.conf.set("spark.sql.python.filterPushdown.enabled", True)
    spark.conf.set("spark.sql.adaptive.enabled", False)
    for condition, count in (
        ("day = DATE'0001-01-01'", 20),
        ("day > DATE'1970-01-01'", 20),
        ("visited IS NULL", 6),
        ("visited IN (DATE'2026-01-02', DATE'2026-01-11')", 6),
        ("NOT (visited <= DATE'2026-01-09')", 6),
        ("tiny = 9", 6),
        ("tiny > 1000", 0),
    ):
        frame = load(spark, service, path).where(condition)
        assert len(frame.collect()) == count, condition
        scan = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
        assert scan.metrics().apply("numOutputRows").value() == count, condition
    with only_segments(service, path, lambda row: row["day"] == date.max) as (near, away):
        assert near > 0 < away
        assert load(spark, service, path).where("day = DATE'9999-12-31'").count() == 20
        with pytest.raises(PySparkException):
            load(spark, service, path).collect()
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")
