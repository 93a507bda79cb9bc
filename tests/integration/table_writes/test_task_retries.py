"""Tasks that fail and run again: nothing is written twice, and no batch is cut short."""

from __future__ import annotations

import threading
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from support.running.cluster_of_processes import Deployment
from support.running.processes import wait_for
from tiering.model.tables import TablePath

ROWS = 200_000


def first_time() -> str:
    """Returns a SQL expression that is true only when it is evaluated the first time: Spark and its tasks are one JVM."""
    return f"reflect('java.lang.System', 'setProperty', 'test.{uuid4().hex}', 'x') = 'null'"


def new_table(service: Deployment, name: str) -> str:
    service.create(TablePath("sales", name), freshness="1 h")
    return f"fluss.sales.{name}"


def counts(spark: SparkSession, table: str) -> tuple[int, int]:
    [row] = spark.sql(f"SELECT count(*) AS rows, count(DISTINCT id) AS ids FROM {table}").collect()
    return row.rows, row.ids


@pytest.mark.parametrize("source", ["range(0, {rows}, 1, 1)", "(SELECT /*+ REPARTITION(2) */ id FROM range({rows}))"])
def test_a_task_whose_query_fails_in_the_middle_writes_nothing_twice(spark: SparkSession, service: Deployment, source: str) -> None:
    table = new_table(service, f"failing_{uuid4().hex}")

    failing_id = f"if(id = 150000 AND {first_time()}, raise_error('lost'), id)"
    spark.sql(f"INSERT INTO {table} SELECT {failing_id}, 'x' FROM {source.format(rows=ROWS)}")

    assert counts(spark, table) == (ROWS, ROWS)


def test_a_python_process_that_dies_writes_nothing_twice(spark: SparkSession, service: Deployment) -> None:
    table = new_table(service, "dying")

    def dying(batches):  # type: ignore[no-untyped-def]  # Spark calls it in another process
        import os

        from pyspark import TaskContext

        for number, batch in enumerate(batches):
            if number == 9 and TaskContext.get().attemptNumber() == 0:  # type: ignore[union-attr]
                os._exit(1)
            yield batch

    spark.range(0, ROWS, 1, 2).mapInArrow(dying, "id BIGINT").selectExpr("id", "'x' AS text").writeTo(table).append()

    assert counts(spark, table) == (ROWS, ROWS)


def test_rows_that_are_others_when_the_task_runs_again_are_an_error(spark: SparkSession, service: Deployment) -> None:
    table = new_table(service, "random_rows")
    text = f"if(id = {2 * ROWS} AND {first_time()}, raise_error('lost'), reflect('java.util.UUID', 'randomUUID'))"

    with pytest.raises(PySparkException) as raised:
        spark.sql(f"INSERT INTO {table} SELECT id, {text} FROM range(0, {3 * ROWS}, 1, 1)")

    written, ids = counts(spark, table)
    assert "its batch 0 has other rows than the batch that it wrote before" in str(raised.value)
    assert "Store the rows of the query first" in str(raised.value)
    assert f"The log of {table} has {written} records of the statement, and they stay." in str(raised.value)
    assert 0 < written == ids < 2 * ROWS


def test_a_query_that_fails_tells_how_many_rows_stay(spark: SparkSession, service: Deployment) -> None:
    table = new_table(service, "failed")

    with pytest.raises(PySparkException) as raised:
        spark.sql(f"INSERT INTO {table} SELECT id, string(1 / (150000 - id)) FROM range(0, {ROWS}, 1, 1)")

    written, ids = counts(spark, table)
    assert "DIVIDE_BY_ZERO" in str(raised.value)
    assert f"The log of {table} has {written} records of the statement, and they stay." in str(raised.value)
    assert 0 < written == ids < 150_000


def test_a_create_table_as_select_that_fails_leaves_no_table_and_says_so(spark: SparkSession) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS fluss.sales")
    query = f"SELECT id, IF(id = {ROWS - 1}, NULL, 'x') AS day FROM range(0, {ROWS}, 1, 1)"

    with pytest.raises(PySparkException) as raised:
        spark.sql(f"CREATE TABLE fluss.sales.halved PARTITIONED BY (day) AS {query}")

    assert "NULL value appeared in non-nullable field: day. fluss.sales.halved was not created." in str(raised.value)
    assert "halved" not in [row.tableName for row in spark.sql("SHOW TABLES IN fluss.sales").collect()]


def test_a_query_that_fails_before_its_first_batch_keeps_its_own_error(spark: SparkSession, service: Deployment) -> None:
    table = new_table(service, "failed_early")

    with pytest.raises(PySparkException) as raised:
        spark.sql(f"INSERT INTO {table} SELECT id, string(1 / id) FROM range(0, 10, 1, 1)")

    assert raised.value.getCondition() == "DIVIDE_BY_ZERO"
    assert counts(spark, table) == (0, 0)


def test_a_coordinator_that_is_killed_in_the_middle_loses_and_doubles_nothing(spark: SparkSession, service: Deployment) -> None:
    table = new_table(service, "restarted")
    path = TablePath("sales", "restarted")
    failures: list[BaseException] = []

    def insert() -> None:
        try:
            spark.sql(f"INSERT INTO {table} SELECT id, repeat('x', 200) FROM range(0, {3 * ROWS}, 1, 2)")
        except BaseException as error:
            failures.append(error)

    def written() -> int:
        with service.cluster() as cluster:
            return sum(offsets.log_end for offsets in cluster.offsets(cluster.table(path)).values())

    statement = threading.Thread(target=insert)
    statement.start()
    wait_for("the first batches", lambda: written() > ROWS // 4)
    service.kill_coordinator()
    service.start_coordinator(port=service.port)
    statement.join(300)

    assert not statement.is_alive()
    assert failures == []
    assert counts(spark, table) == (3 * ROWS, 3 * ROWS)
