"""Fresh rows in spark-sql and Spark Connect, and no ticket in what Spark shows. `integration/clients` has them over JDBC."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.running.cluster_of_processes import Deployment
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
