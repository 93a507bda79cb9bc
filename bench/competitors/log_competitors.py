"""Other ways to fill a lake from a log, in one warm Spark session: Structured Streaming (`availableNow`) and a batch INSERT, both into
Iceberg."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from tiering.cli.spark.jars import ICEBERG_RUNTIME, jar_path


def measure(source: Path, warm_source: Path, work: Path, cores: int) -> dict[str, float]:
    """Seconds of each over the Parquet files in `source`, after one over `warm_source`."""
    spark = _session(work, cores)
    competitors: dict[str, Callable[[SparkSession, Path, Path, str], None]] = {"streaming": _stream, "batch": _insert}
    seconds = {}
    try:
        for name, write in competitors.items():
            for files, table in ((warm_source, f"{name}_warm"), (source, name)):
                spark.read.parquet(str(files)).limit(0).writeTo(f"ice.bench.{table}").tableProperty(
                    "write.parquet.compression-codec", "zstd"
                ).create()
                start = time.perf_counter()
                write(spark, files, work, table)
                seconds[name] = time.perf_counter() - start
        return seconds
    finally:
        spark.stop()


def _session(work: Path, cores: int) -> SparkSession:
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("log competitors")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.jars", str(jar_path(ICEBERG_RUNTIME)))
        .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.ice.type", "hadoop")
        .config("spark.sql.catalog.ice.warehouse", str(work / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _stream(spark: SparkSession, source: Path, work: Path, table: str) -> None:
    rows = spark.readStream.schema(spark.read.parquet(str(source)).schema).parquet(str(source))
    query = (
        rows.writeStream.format("iceberg")
        .trigger(availableNow=True)
        .option("checkpointLocation", str(work / f"checkpoint-{table}"))
        .toTable(f"ice.bench.{table}")
    )
    query.awaitTermination()


def _insert(spark: SparkSession, source: Path, work: Path, table: str) -> None:
    spark.read.parquet(str(source)).createOrReplaceTempView("source_rows")
    spark.sql(f"INSERT INTO ice.bench.{table} SELECT * FROM source_rows")
