"""The Spark session of a tierer: any master; executors run the Python environment of the driver."""

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
    # A laptop's driver listens to nobody else.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


AUTHENTICATE = "spark.authenticate"
SECRET = "spark.authenticate.secret"
_SPARK_MAKES_THE_SECRET = re.compile(r"local|local\[[^\]]*\]|yarn|k8s://.*")
"""Masters with which Spark makes a secret for each application itself (SecurityManager.initializeAuth)."""
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
        # PySpark puts what it knows when the JVM starts on its command line, which everybody can read.
        public = SparkConf(loadDefaults=False).setMaster(master).setAppName(app_name).setAll(list(settings.items()))
        SparkContext._ensure_initialized(conf=public)
        builder = builder.config(SECRET, secrets.token_hex(SECRET_BYTES))
    return builder.getOrCreate()


def authentication(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings by which driver and executors prove to each other that they belong together (Spark, "Security").

    The daemons of a standalone cluster (`spark://`) know no secret but one that its administrator gave to all of them: there the user's
    settings decide, as they do wherever they name it.
    """
    ours = _SPARK_MAKES_THE_SECRET.fullmatch(master) or master.startswith(_LOCAL_CLUSTER)
    return {AUTHENTICATE: "true"} if ours and AUTHENTICATE not in settings else {}


def needs_secret(master: str, settings: Mapping[str, str]) -> bool:
    """Whether Spark wants a secret from us: with `local-cluster`, whose daemons belong to this process."""
    return master.startswith(_LOCAL_CLUSTER) and settings.get(AUTHENTICATE) == "true" and SECRET not in settings


def warm_up(spark: SparkSession) -> None:
    """Runs a job that does nothing on every core, so that the first round finds JVM, daemon and workers running."""
    cores = spark.sparkContext.defaultParallelism
    spark.sparkContext.parallelize(range(cores), cores).mapPartitions(list).collect()
