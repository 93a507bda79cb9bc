"""Spark sessions of tests. Spark takes a class path only when its JVM starts, so each set of tests has a JVM of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

JVM_END_SECONDS = 60


@contextmanager
def spark_session(warehouse: Path, properties: Mapping[str, str], name: str = "tests") -> Iterator[SparkSession]:
    """A small local session with `properties`; its JVM, and one that was there before, is ended."""
    end_jvm()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(warehouse),
        **properties,
    }
    builder = SparkSession.builder.master("local[2]").appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        end_jvm()


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
