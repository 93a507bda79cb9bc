"""Faults of a fresh read in Spark. Each is one error that says what happened, where, and what to do. No answer has fewer rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.types import LongType
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import DataFrame, SparkSession

from support.lake_kinds.kinds import ICEBERG
from support.running.cluster_of_processes import Deployment
from support.running.spark_sessions import add_catalog, plugin_properties
from support.services.sql_clients import ask_shell
from tiering.cli.spark.properties import CATALOG, CATALOG_CLASS, LAKE_CATALOG
from tiering.cluster.embedded.log.segments import LOG_FOLDER, LOG_STARTS_FILE
from tiering.cluster.log_writer import LogWriter
from tiering.model.tables import TablePath
from tiering.union_read.task_codec import lakeward_version

PLAIN = TablePath("sales", "plain")
NAME = f"{CATALOG}.{PLAIN}"
COUNT = 90


def make_table(service: Deployment, path: TablePath) -> None:
    """A table with 60 rows in the lake and 30 in the log."""
    service.create(path, freshness="1 h")
    service.append(path, 0, 60)
    service.lakeward("tier", str(path))
    service.append(path, 60, 30)


@pytest.fixture(scope="module")
def spark(service: Deployment, fresh_spark: SparkSession) -> SparkSession:
    """A session, and the table `sales.plain`."""
    make_table(service, PLAIN)
    return fresh_spark


def count(spark: SparkSession, table: str) -> int:
    """Returns the number of rows that are read one by one."""
    return len(spark.sql(f"SELECT * FROM {table}").collect())


def load(spark: SparkSession, service: Deployment, path: TablePath) -> DataFrame:
    return spark.read.format("lakeward").options(table=str(path), uri=service.uri).load()


def error_of(work: Any) -> str:
    with pytest.raises(Exception, match=r"\w") as raised:  # of Spark or of py4j
        work()
    return str(raised.value)


def missing_words(text: str, *words: str) -> list[str]:
    return [word for word in words if word not in text]


@contextmanager
def away(service: Deployment) -> Iterator[None]:
    """A time without a coordinator."""
    port = service.port
    service.kill_coordinator()
    try:
        yield
    finally:
        service.start_coordinator(port=port)


@pytest.mark.parametrize("kind", ["no program", "no package"])
def test_without_the_package_the_error_names_the_remedy_and_the_lake_copy_is_read(
    kind: str, spark: SparkSession, service: Deployment, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    if kind == "no package":  # -S: no package of the environment is found
        python.write_text('#!/bin/sh\nunset PYTHONPATH\nexec python3 -S "$@"\n')
        python.chmod(0o755)
    name = kind.replace(" ", "_")
    add_catalog(spark, name, CATALOG_CLASS, {"uri": service.uri, "lake": LAKE_CATALOG, "python": str(python)})

    message = error_of(lambda: count(spark, f"{name}.{PLAIN}"))

    assert missing_words(message, *REMEDIES) == [], message
    assert count(spark, f"{name}.sales.`plain$lake`") == 60
    assert spark.table(f"{name}.{PLAIN}").columns == ["id", "text"]


REMEDIES = ("FreshReadUnavailable", "sales.plain", "option python", "PYSPARK_PYTHON", "sales.`plain$lake`", "plain-name=lake")


def test_a_pyspark_python_that_does_not_exist_is_an_error_with_the_remedy(service: Deployment, spark: SparkSession, tmp_path: Path) -> None:
    assert spark.table(NAME).columns == ["id", "text"]
    properties = {**plugin_properties(service), "spark.ui.enabled": "false"}
    options = " ".join(f"--conf '{name}={value}'" for name, value in properties.items())
    command = f"SPARK_HOME={_find_spark_home()} PYSPARK_PYTHON={tmp_path}/nowhere spark-sql --master local[1] {options}"

    fresh, lake = ask_shell(command, tmp_path, [f"SELECT * FROM {NAME}", f"SELECT count(*) AS total FROM {CATALOG}.sales.`plain$lake`"])

    assert missing_words(str(fresh), *REMEDIES, f"{tmp_path}/nowhere") == [], fresh
    assert "60" in str(lake)


def test_executors_with_another_version_are_an_error_with_both_versions(spark: SparkSession, service: Deployment, tmp_path: Path) -> None:
    description = tmp_path / "packages" / "lakeward-9.9.9.dist-info" / "METADATA"
    description.parent.mkdir(parents=True)
    description.write_text("Metadata-Version: 2.1\nName: lakeward\nVersion: 9.9.9\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexport PYTHONPATH="{tmp_path}/packages:$PYTHONPATH"\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    add_catalog(spark, "newer", CATALOG_CLASS, {"uri": service.uri, "lake": LAKE_CATALOG, "python": str(python)})

    message = error_of(lambda: count(spark, f"newer.{PLAIN}"))

    assert missing_words(message, "[PeerTooOld]", lakeward_version(), "9.9.9", "Install the service's version") == [], message


def test_without_a_service_a_statement_is_an_error(spark: SparkSession, service: Deployment) -> None:
    frame, plain = spark.table(NAME), load(spark, service, PLAIN)
    with away(service):
        message = error_of(frame.collect)
        plain_message = error_of(lambda: load(spark, service, PLAIN).collect())
    assert missing_words(message, "no Lakeward service answers at", service.uri, "lakeward up") == [], message
    assert missing_words(plain_message, "[ServiceUnreachable]", service.uri) == [], plain_message
    assert count(spark, NAME) == len(plain.collect()) == COUNT


def test_a_service_that_is_away_between_the_moment_and_the_tasks_is_an_error(spark: SparkSession, service: Deployment) -> None:
    execution = spark.sql(f"SELECT * FROM {NAME}")._jdf.queryExecution()
    assert "log records 30" in execution.executedPlan().toString()
    with away(service):
        message = error_of(lambda: execution.toRdd().count())
    assert missing_words(message, "no Lakeward service answers at", service.uri) == [], message


def test_a_running_scan_needs_no_service(spark: SparkSession, service: Deployment) -> None:
    rows = spark.table(NAME).toLocalIterator()
    first = next(rows)
    with away(service):
        ids = sorted(row.id for row in (first, *rows))
    assert ids == list(range(COUNT))


def test_a_stream_without_a_service_is_an_error_and_continues_later(spark: SparkSession, service: Deployment, tmp_path: Path) -> None:
    frame = spark.readStream.table(NAME)
    writer = (
        frame.writeStream.format("parquet")
        .option("path", str(tmp_path / "rows"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    with away(service):
        message = error_of(writer.trigger(availableNow=True).start().awaitTermination)
    assert missing_words(message, "no Lakeward service answers at", service.uri) == [], message

    writer.trigger(availableNow=True).start().awaitTermination()
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "rows")).collect()) == list(range(COUNT))


def test_a_log_that_is_cut_while_it_is_read_is_an_error(spark: SparkSession, service: Deployment) -> None:
    path = TablePath("sales", "cut")
    make_table(service, path)
    with service.cluster() as cluster:
        log = service.data.cluster / LOG_FOLDER / str(cluster.table(path).table_id)
    tasks = spark.sql(f"SELECT * FROM {CATALOG}.{path}")._jdf.queryExecution().toRdd()
    assert tasks.getNumPartitions() > 0
    # Retention keeps the log of an open read, so the test cuts it.
    segments = [file for file in log.iterdir() if file.suffix == ".arrow"]
    assert segments, list(log.iterdir())
    (log / LOG_STARTS_FILE).write_text(json.dumps({str(bucket): 90 for bucket in range(3)}))
    for file in segments:
        file.unlink()

    message = error_of(tasks.count)

    assert missing_words(message, "[LogTruncated]", "bucket", "offsets [") == [], message


def test_a_lake_table_that_was_rolled_back_is_an_error_that_names_the_copy(spark: SparkSession, service: Deployment) -> None:
    path = TablePath("sales", "returned")
    make_table(service, path)
    service.lakeward("tier", str(path))
    by_hand = service.by_hand(ICEBERG)
    former = by_hand.former_head(path)
    assert former is not None
    by_hand.roll_back(path, former)

    for work in (lambda: count(spark, f"{CATALOG}.{path}"), lambda: load(spark, service, path).collect()):
        message = error_of(work)
        assert missing_words(message, "[LakeRolledBack]", "sales.returned", "sales.`returned$lake`") == [], message
    assert count(spark, f"{CATALOG}.sales.`returned$lake`") == 60


def test_a_column_whose_type_a_user_changed_in_the_lake_is_an_error_with_its_name(spark: SparkSession, service: Deployment) -> None:
    path, schema = TablePath("sales", "typed"), pa.schema([pa.field("id", pa.int64()), pa.field("amount", pa.int32())])
    service.create(path, freshness="1 h", schema=schema)
    for number in range(2):
        with service.cluster() as cluster:
            LogWriter(cluster, path, f"typed-{number}").append(pa.table({"id": range(9), "amount": range(9)}, schema=schema))
        if number == 0:
            service.lakeward("tier", str(path))
    with load_catalog("lake", **service.lake_properties).load_table(str(path)).update_schema() as update:
        update.update_column("amount", LongType())

    for work in (lambda: count(spark, f"{CATALOG}.{path}"), lambda: load(spark, service, path).collect()):
        message = error_of(work)
        assert missing_words(message, "[SchemaDrift]", "sales.typed", "'amount'", "sales.`typed$lake`") == [], message
