"""The Spark session of a tierer, on any master. Executors run the Python environment of the driver."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tiering.child_process import SAFE_PATH, keep_current_folder_out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A small table's round does not wait behind a large one's.
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "tiering.round.tasks.worker_daemon",
}
LOCAL: Mapping[str, str] = {
    # The driver on a laptop accepts no connections from other machines.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


AUTHENTICATE = "spark.authenticate"
SECRET = "spark.authenticate.secret"
_SPARK_MAKES_THE_SECRET = re.compile(r"local|local\[[^\]]*\]|yarn|k8s://.*")
"""Masters with which Spark itself creates a secret for each application (SecurityManager.initializeAuth)."""
_LOCAL_CLUSTER = "local-cluster["
SECRET_BYTES = 32


def open_spark(master: str, app_name: str, conf: Mapping[str, str]) -> SparkSession:
    """Opens a session on `master`. `conf` overrides the defaults above."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    here = LOCAL if master.startswith("local") else {}
    spark = start_session(master, app_name, {**DEFAULTS, **here, **conf})
    spark.sparkContext.setLogLevel("WARN")
    return spark


def start_session(master: str, app_name: str, settings: Mapping[str, str]) -> SparkSession:
    """Starts a session whose processes authenticate to each other, and whose Python workers import nothing from the current folder."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    keep_current_folder_out()
    settings = {**authentication(master, settings), f"spark.executorEnv.{SAFE_PATH}": "1", **settings}
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    if needs_secret(master, settings):
        # PySpark puts the settings known at the JVM's start on its command line, which every user of the machine can read.
        public = SparkConf(loadDefaults=False).setMaster(master).setAppName(app_name).setAll(list(settings.items()))
        SparkContext._ensure_initialized(conf=public)
        builder = builder.config(SECRET, secrets.token_hex(SECRET_BYTES))
    return builder.getOrCreate()


def authentication(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings by which driver and executors authenticate to each other (Spark, "Security").

    The daemons of a standalone cluster (`spark://`) know only a secret that the administrator gave to all of them. There the user's
    settings decide, as they do wherever they name the option.
    """
    spark_makes_secret = _SPARK_MAKES_THE_SECRET.fullmatch(master) or master.startswith(_LOCAL_CLUSTER)
    return {AUTHENTICATE: "true"} if spark_makes_secret and AUTHENTICATE not in settings else {}


def needs_secret(master: str, settings: Mapping[str, str]) -> bool:
    """Returns whether Lakeward has to create the secret: with `local-cluster`, whose daemons belong to this process."""
    return master.startswith(_LOCAL_CLUSTER) and settings.get(AUTHENTICATE) == "true" and SECRET not in settings


def warm_up(spark: SparkSession) -> None:
    """Runs an empty job on every core, so that JVM, daemon and workers run before the first round."""
    cores = spark.sparkContext.defaultParallelism
    spark.sparkContext.parallelize(range(cores), cores).mapPartitions(list).collect()
