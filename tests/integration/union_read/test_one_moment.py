"""All scans of a table in one statement read the same moment, also while rows are appended, and each statement reads the newest one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from support.running.cluster_of_processes import Deployment
from tiering.cli.spark.properties import CATALOG
from tiering.model.tables import TablePath

PATH = TablePath("sales", "moving")
NAME = f"{CATALOG}.{PATH}"

STATEMENTS = {
    "union": f"SELECT max(total) AS a, min(total) AS b FROM (SELECT count(id) AS total FROM {NAME} UNION ALL SELECT count(id) FROM {NAME})",
    "self join": f"SELECT count(x.id) AS a, count(y.id) AS b FROM {NAME} x FULL JOIN {NAME} y ON x.id = y.id",
    "common table expression": f"WITH c AS (SELECT id FROM {NAME}) SELECT (SELECT count(id) FROM c) AS a, (SELECT max(id) + 1 FROM c) AS b",
    "subquery": f"SELECT count(id) AS a, max((SELECT max(id) + 1 FROM {NAME})) AS b FROM {NAME}",
    "count of all": f"SELECT count(*) AS a, (SELECT max(id) + 1 FROM {NAME}) AS b FROM {NAME}",
}


@pytest.fixture(scope="module")
def moving(service: Deployment) -> Deployment:
    service.create(PATH, freshness="1 h", buckets=1)
    service.append(PATH, 0, 50, pieces=1)
    service.lakeward("tier", str(PATH))
    return service


class Appends:
    """Rows that a thread appends, one after the other. The ids are `0 .. count - 1`."""

    def __init__(self, service: Deployment, start: int) -> None:
        self._service, self._ended = service, threading.Event()
        self.count = start
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._service.append(PATH, self.count, 1, pieces=1)
            self.count += 1

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


@contextmanager
def appending(service: Deployment, spark: SparkSession) -> Iterator[Appends]:
    appends = Appends(service, spark.table(NAME).count())
    try:
        yield appends
    finally:
        appends.end()


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
def test_all_scans_of_a_statement_read_one_moment(moving: Deployment, fresh_spark: SparkSession, statement: str) -> None:
    with appending(moving, fresh_spark) as appends:
        for _ in range(3):
            acknowledged = appends.count
            [row] = fresh_spark.sql(statement).collect()
            assert row.a == row.b >= acknowledged


def test_a_statement_that_is_planned_before_it_is_executed_reads_one_moment(moving: Deployment, fresh_spark: SparkSession) -> None:
    rows, changes = (
        f"(SELECT count(id) FROM {CATALOG}.{PATH.database_name}.`{name}` WHERE id >= 0)" for name in ("moving", "moving$changelog")
    )
    with appending(moving, fresh_spark) as appends:
        for _ in range(3):
            acknowledged = appends.count
            frame = fresh_spark.sql(f"SELECT {rows} AS a, {changes} AS b")
            frame._jdf.queryExecution().executedPlan()  # as for JDBC
            [row] = frame.collect()
            assert row.a == row.b >= acknowledged


def test_a_new_rdd_of_a_data_frame_has_the_newest_moment(moving: Deployment, fresh_spark: SparkSession) -> None:
    frame = fresh_spark.table(NAME)
    before = frame.select("id").rdd.count()
    moving.append(PATH, before, 5, pieces=1)

    assert frame.select("id").rdd.count() == before + 5


def test_data_frames_of_different_times_read_one_moment_when_they_are_joined(moving: Deployment, fresh_spark: SparkSession) -> None:
    first = fresh_spark.table(NAME)
    total = first.count()
    moving.append(PATH, total, 1, pieces=1)
    second = fresh_spark.table(NAME)
    moving.append(PATH, total + 1, 1, pieces=1)

    joined = first.withColumnRenamed("text", "other").join(second, "id", "full")

    assert joined.where("text IS NOT NULL AND other IS NOT NULL").count() == total + 2
    assert joined.count() == total + 2


WRITES: dict[str, Callable[[SparkSession], object]] = {
    "insert": lambda spark: spark.sql(f"INSERT INTO copies SELECT x.id, y.id FROM {NAME} x FULL JOIN {NAME} y ON x.id = y.id"),
    "create as select": lambda spark: spark.sql(
        f"CREATE TABLE copies USING parquet AS SELECT x.id AS a, y.id AS b FROM {NAME} x FULL JOIN {NAME} y ON x.id = y.id"
    ),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_statement_that_writes_elsewhere_reads_one_moment(moving: Deployment, fresh_spark: SparkSession, write: str) -> None:
    fresh_spark.sql("DROP TABLE IF EXISTS copies")
    if write == "insert":
        fresh_spark.sql("CREATE TABLE copies (a BIGINT, b BIGINT) USING parquet")
    with appending(moving, fresh_spark) as appends:
        acknowledged = appends.count
        WRITES[write](fresh_spark)

    [row] = fresh_spark.sql("SELECT count(*) AS total, count(a) AS a, count(b) AS b FROM copies").collect()

    assert row.a == row.b == row.total >= acknowledged


def test_a_data_frame_that_is_collected_twice_shows_its_first_rows_again(moving: Deployment, fresh_spark: SparkSession) -> None:
    frame = fresh_spark.table(NAME)
    before = len(frame.collect())
    moving.append(PATH, before, 5, pieces=1)

    assert len(frame.collect()) == before
    assert frame.select("id").count() == before + 5


def test_a_view_reads_the_newest_moment_each_time(moving: Deployment, fresh_spark: SparkSession) -> None:
    fresh_spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW moving_view AS SELECT * FROM {NAME}")
    [before] = fresh_spark.sql("SELECT count(*) AS total FROM moving_view").collect()
    moving.append(PATH, before.total, 5, pieces=1)

    [after] = fresh_spark.sql("SELECT count(*) AS total FROM moving_view").collect()

    assert after.total == before.total + 5


def test_a_cached_table_is_read_from_the_cache_until_it_is_refreshed(moving: Deployment, fresh_spark: SparkSession) -> None:
    fresh_spark.sql(f"CACHE TABLE {NAME}")
    try:
        [before] = fresh_spark.sql(f"SELECT count(*) AS total FROM {NAME}").collect()
        moving.append(PATH, before.total, 5, pieces=1)
        [cached] = fresh_spark.sql(f"SELECT count(*) AS total FROM {NAME}").collect()
        fresh_spark.sql(f"REFRESH TABLE {NAME}")
        [refreshed] = fresh_spark.sql(f"SELECT count(*) AS total FROM {NAME}").collect()
    finally:
        fresh_spark.sql(f"UNCACHE TABLE IF EXISTS {NAME}")
    assert (cached.total, refreshed.total) == (before.total, before.total + 5)
