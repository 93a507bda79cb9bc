"""Classes of Spark that JVMs of the tests need not load one by one: an archive that each maps into its memory, made by `make test-setup`.

A driver that starts and runs a few statements takes 7 CPU seconds with it, and 12 without, and a hundred start. A JVM to which it does not
fit, since it has another version or class path, does without and says nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from support.repository import ROOT
from tiering.cli.spark.jars import SPARK_JARS, jar_path
from tiering.cli.spark.java import require_java
from tiering.errors import SetupError

ARCHIVE = ROOT / ".venv" / "spark-classes.jsa"
STAMP = ARCHIVE.with_suffix(".made-for")
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""No JVM lives long enough to earn back the cost of the optimizing compiler: with the quick one alone Spark takes a quarter less CPU."""
_SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""Warnings would come in the standard output, among the rows of a shell."""
MAKE_SECONDS = 300


def archive_options() -> str:
    """For any JVM of Spark; none if the archive was not made."""
    return f"-XX:SharedArchiveFile={ARCHIVE} {_SILENT}" if ARCHIVE.is_file() else ""


def jvm_options() -> str:
    """For a JVM of which the tests alone decide."""
    return f"{QUICK_JVM} {archive_options()}".strip()


def executor_conf() -> tuple[str, str]:
    """Returns the setting for the executors of a tierer, as words of its command."""
    return "--conf", f"spark.executor.extraJavaOptions={jvm_options()}"


def make_archive() -> None:
    """Makes it if it is not there, or is of another Java or Spark. Raises SetupError."""
    java = subprocess.run([require_java(), "-version"], capture_output=True, text=True, check=True).stderr
    wanted = f"Spark {version('pyspark')}\n{java}"
    if ARCHIVE.is_file() and STAMP.is_file() and STAMP.read_text() == wanted:
        return
    print("setup: making an archive of Spark's classes for tests", file=sys.stderr)
    ARCHIVE.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        archive = Path(folder) / ARCHIVE.name  # a JVM crashes on half of one
        environment = os.environ | {"SPARK_SUBMIT_OPTS": f"{QUICK_JVM} -XX:ArchiveClassesAtExit={archive} {_SILENT}"}
        environment |= {"TMPDIR": folder, "PYSPARK_PYTHON": sys.executable}
        command = [sys.executable, "-m", "support.spark.class_archive", "use-spark", folder]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=MAKE_SECONDS, check=False)
        if ended.returncode or not archive.is_file():
            raise SetupError(f"the archive of Spark's classes was not made: {(ended.stdout + ended.stderr).strip()[-2_000:]}")
        archive.replace(ARCHIVE)
    STAMP.write_text(wanted)


def use_spark(folder: str) -> None:
    """Loads the classes that most tests need."""
    from pyspark.sql import SparkSession  # which takes a second that no worker of pytest needs

    properties = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": folder,
        "spark.jars": ",".join(str(jar_path(jar)) for jar in SPARK_JARS),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "jdbc",
        "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{folder}/catalog.db",
        "spark.sql.catalog.lake.warehouse": f"{folder}/lake",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in properties.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sql("CREATE NAMESPACE lake.d")
    spark.sql("CREATE TABLE lake.d.t (id BIGINT, at TIMESTAMP, name STRING) USING iceberg PARTITIONED BY (bucket(2, id))")
    spark.sql("INSERT INTO lake.d.t SELECT id, now(), concat('n', id) FROM range(10)")
    spark.sql("DELETE FROM lake.d.t WHERE id = 3")
    spark.sql(
        "SELECT a.name, count(*) AS n FROM lake.d.t a JOIN lake.d.t b USING (id) WHERE id > 1 GROUP BY a.name ORDER BY n, 1 LIMIT 3"
    ).collect()
    spark.sql("SELECT * FROM lake.d.t.snapshots").toPandas()
    spark.sparkContext.parallelize(range(2), 2).map(str).collect()
    spark.range(4).mapInArrow(lambda batches: batches, "id BIGINT").collect()
    spark.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == ["use-spark"]:
        use_spark(sys.argv[2])
    else:
        make_archive()
