"""Fresh rows in spark-sql, Spark Connect and iterators, and no ticket in what Spark shows. `integration/clients` has them over JDBC."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from support.running.cluster_of_processes import Deployment
from support.running.processes import wait_for
from support.running.spark_sessions import plugin_properties
from support.services.sql_clients import ask_shell, run
from tiering.cli.spark.properties import CATALOG
from tiering.model.tables import TablePath

PATH = TablePath("sales", "clients")
NAME = f"{CATALOG}.{PATH}"
COUNT = f"SELECT count(id) AS total FROM {NAME}"

CONNECT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[1]")
for option in sys.argv[1:]:
    spark = spark.config(*option.split("=", 1))
spark = spark.getOrCreate()
print("--- answer", spark.sql("{statement}").collect()[0].total)
spark.stop()
"""


@pytest.fixture(scope="module")
def options(service: Deployment) -> list[str]:
    """Options of a Spark for a table with 60 rows in the lake and 30 in the log."""
    service.create(PATH, freshness="1 h")
    service.append(PATH, 0, 60)
    service.lakeward("tier", str(PATH))
    service.append(PATH, 60, 30)
    properties = {**plugin_properties(service), "spark.ui.enabled": "false"}
    return [f"{name}={value}" for name, value in properties.items()]


def test_the_spark_sql_shell_reads_fresh(options: list[str], tmp_path: Path) -> None:
    command = "spark-sql --master local[1] " + " ".join(f"--conf '{option}'" for option in options)
    [answer] = ask_shell(command, tmp_path, [COUNT])
    assert "90" in str(answer)


def test_a_connect_session_reads_fresh(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(CONNECT.replace("{statement}", COUNT))
    printed = run("python program.py", tmp_path, *options)
    assert "--- answer 90" in printed, printed[-3_000:]


def test_no_text_of_a_plan_has_a_ticket(options: list[str], fresh_spark: SparkSession) -> None:
    frame = fresh_spark.sql(f"SELECT * FROM {NAME} WHERE id > 5")
    execution = frame._jdf.queryExecution()
    texts = [execution.toString(), execution.stringWithStats(), execution.optimizedPlan().toJSON(), execution.executedPlan().treeString()]
    assert "log records 30 in 3 buckets" in texts[0]
    assert "ticket" not in "".join(texts).lower()


ITERATORS: dict[str, Callable[[DataFrame], Iterator[Any]]] = {
    "Python": lambda frame: frame.toLocalIterator(),
    "Scala": lambda frame: java_iterator(frame._jdf.toLocalIterator()),
    "RDD": lambda frame: frame.rdd.toLocalIterator(),
}


def java_iterator(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def open_reads(spark: SparkSession) -> set[str]:
    rows = spark.sql(f"SELECT read_id FROM {CATALOG}.sys.open_reads WHERE table_name = '{PATH.table_name}'").collect()
    return {row.read_id for row in rows}


@pytest.mark.parametrize("client", ITERATORS)
def test_the_read_of_an_iterator_is_open_until_the_iterator_is_garbage(options: list[str], fresh_spark: SparkSession, client: str) -> None:
    before = open_reads(fresh_spark)
    rows = ITERATORS[client](fresh_spark.sql(f"SELECT id FROM {NAME}"))
    next(rows)
    [read] = open_reads(fresh_spark) - before

    # Reads end in the order in which their statements end, and the read of EXPLAIN ends when its plan is garbage.
    fresh_spark.sql(f"SELECT id FROM {NAME}").collect()
    fresh_spark.sql(f"EXPLAIN SELECT id FROM {NAME}").collect()
    wait_for("the reads of later statements end", lambda: garbage(fresh_spark) and not open_reads(fresh_spark) - before - {read})
    assert read in open_reads(fresh_spark)
    assert len(list(rows)) == 89

    del rows
    wait_for("the read ends with its iterator", lambda: garbage(fresh_spark) and read not in open_reads(fresh_spark))


def garbage(spark: SparkSession) -> bool:
    """Lets Python and Java drop what is garbage."""
    gc.collect()
    spark._jvm.System.gc()  # type: ignore[union-attr]
    return True
