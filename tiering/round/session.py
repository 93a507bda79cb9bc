"""The Spark session of a tierer: any master; executors run the Python environment of the driver."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Splits come one a task and results are small: nothing here shuffles or adapts.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    # A small table's round does not wait behind a large one's.
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "tiering.round.worker_daemon",
}
LOCAL: Mapping[str, str] = {
    # A laptop's driver listens to nobody else.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def open_spark(master: str, app_name: str, conf: Mapping[str, str]) -> SparkSession:
    """A session on `master`. `conf` overrides the defaults above."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(app_name)
    here = LOCAL if master.startswith("local") else {}
    for name, value in {**DEFAULTS, **here, **conf}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def warm_up(spark: SparkSession) -> None:
    """A job that does nothing, on every core: the first round then finds JVM, daemon and workers running."""
    cores = spark.sparkContext.defaultParallelism
    spark.range(0, cores, 1, cores).mapInArrow(lambda batches: batches, "id long").collect()
