"""Spark sessions of tests. Spark takes a class path only when its JVM starts, so each set of tests has a JVM of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tiering.cli.spark.properties import catalog_lake_properties, catalog_properties, plugin_jar

if TYPE_CHECKING:
    from support.running.cluster_of_processes import Deployment

JVM_END_SECONDS = 60
SMALL_SPARK = {
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.catalogImplementation": "in-memory",
}
"""Properties of a Spark for a few rows, on this machine alone."""


def plugin_properties(service: Deployment) -> dict[str, str]:
    """Returns the properties of a Spark with the plugin and the catalog of the lake, as `lakeward spark-conf --lake` prints them."""
    return {**catalog_properties(service.uri, plugin_jar()), **catalog_lake_properties(service.lake_properties)}


@contextmanager
def spark_session(warehouse: Path, properties: Mapping[str, str], name: str = "tests") -> Iterator[SparkSession]:
    """A small local session with `properties`; its JVM, and one that was there before, is ended."""
    end_jvm()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {**SMALL_SPARK, "spark.sql.warehouse.dir": str(warehouse), **properties}
    builder = SparkSession.builder.master("local[2]").appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        end_jvm()


def complaint(spark: SparkSession, sql: str, error: type[PySparkException] = AnalysisException) -> str:
    """Runs a statement that must raise `error`, and returns its message."""
    with pytest.raises(error) as raised:
        spark.sql(sql).collect()
    return str(raised.value)


def sql_shell(properties: Mapping[str, str], master: str = "local[1]") -> list[str]:
    """Returns the command of a spark-sql shell with `properties`."""
    confs = [part for name, value in properties.items() for part in ("--conf", f"{name}={value}")]
    return [str(Path(pyspark.__file__).parent / "bin" / "spark-sql"), "--master", master, *confs]


def end_jvm() -> None:
    """Ends this process's JVM, if there is one."""
    if (active := SparkSession.getActiveSession()) is not None:
        active.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(JVM_END_SECONDS)
        SparkContext._gateway = SparkContext._jvm = None


def add_catalog(spark: SparkSession, name: str, catalog_class: str, options: Mapping[str, str]) -> None:
    """Adds a catalog to a session, as if its Spark had been started with it."""
    start_up = spark.sparkContext._jsc.sc().conf()  # type: ignore[union-attr]
    prefix = f"spark.sql.catalog.{name}"
    for option, value in {prefix: catalog_class, **{f"{prefix}.{option}": value for option, value in options.items()}}.items():
        start_up.set(option, value)
        spark.conf.set(option, value)


@contextmanager
def sessions_started_with(spark: SparkSession, catalog: str, catalog_class: str) -> Iterator[Callable[[Mapping[str, str]], SparkSession]]:
    """Makes sessions of their own with the catalog, each as if its Spark had been started with these options alone.

    A session cannot set the options of the connection. The catalog is made at once, if its options are right: the next session has others.
    """
    spark._jsparkSession.sharedState()  # made with the first session's options, it would give them to all later ones
    start_up = spark.sparkContext._jsc.sc().conf()  # type: ignore[union-attr]
    prefix = f"spark.sql.catalog.{catalog}"

    def clear() -> None:
        for entry in list(start_up.getAllWithPrefix(prefix)):
            start_up.remove(prefix + entry._1())

    def make(options: Mapping[str, str]) -> SparkSession:
        clear()
        for name, value in {prefix: catalog_class, **{f"{prefix}.{name}": value for name, value in options.items()}}.items():
            start_up.set(name, value)
        session = spark.newSession()
        spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)  # type: ignore[union-attr]
        with suppress(Py4JJavaError, PySparkException):
            session._jsparkSession.sessionState().catalogManager().catalog(catalog)
        return session

    try:
        yield make
    finally:
        clear()
