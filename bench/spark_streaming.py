"""What people do today: Spark Structured Streaming (`availableNow`) from files into an Iceberg table."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from flight_rows import SCHEMA, flight_batches
from pyspark.sql import SparkSession

from tiering.cli.spark_properties import ICEBERG_RUNTIME

ROWS_PER_FILE = 1_000_000
SPARK_SCHEMA = "flight_id long, delay_minutes int, distance_km double, departed_at timestamp, tail_number string"


def write_source(folder: Path, rows: int) -> None:
    """The same rows as Parquet files of a million rows, which a file stream reads fastest."""
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, rows, ROWS_PER_FILE)):
        batches = list(flight_batches(min(ROWS_PER_FILE, rows - start), seed=number))
        pq.write_table(pa.Table.from_batches(batches, schema=SCHEMA), folder / f"{number:05d}.parquet", compression="zstd")


def measure(source: Path, warm_source: Path, work: Path, cores: int) -> float:
    """Seconds of one `availableNow` query over `source`, in a session that ran one before."""
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("structured streaming")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.jars.packages", ICEBERG_RUNTIME)
        .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.ice.type", "hadoop")
        .config("spark.sql.catalog.ice.warehouse", str(work / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        _stream(spark, warm_source, work, "warm")
        return _stream(spark, source, work, "flights")
    finally:
        spark.stop()


def _stream(spark: SparkSession, source: Path, work: Path, name: str) -> float:
    spark.sql(f"CREATE TABLE ice.bench.{name} ({SPARK_SCHEMA}) USING iceberg TBLPROPERTIES ('write.parquet.compression-codec'='zstd')")
    start = time.perf_counter()
    rows = spark.readStream.schema(SPARK_SCHEMA).parquet(str(source))
    query = (
        rows.writeStream.format("iceberg")
        .trigger(availableNow=True)
        .option("checkpointLocation", str(work / f"checkpoint-{name}"))
        .toTable(f"ice.bench.{name}")
    )
    query.awaitTermination()
    return time.perf_counter() - start
