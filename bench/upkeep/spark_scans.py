"""Full scans of Iceberg tables by Spark, in a session of its own."""

from __future__ import annotations

import statistics
import time

from pyspark.sql import SparkSession
from upkeep.world import AgingWorld

from support.running.spark_sessions import spark_session
from tiering.cli.spark.properties import lake_catalog_name, lake_properties_for_spark
from tiering.model.tables import TablePath


def spark_scan_seconds(world: AgingWorld, path: TablePath, copy: TablePath, times: int) -> dict[str, float]:
    """Seconds of a scan of `path` and of its `copy`, and their ratio: medians of `times` scans, in turns, after one of each to warm up."""
    catalog = lake_catalog_name(world.lake_properties)
    uncached = {f"spark.sql.catalog.{catalog}.cache-enabled": "false"}  # else only the first scan reads the table's metadata
    taken: dict[TablePath, list[float]] = {path: [], copy: []}
    properties = {**lake_properties_for_spark(world.lake_properties), **uncached}
    with spark_session(world.folder.root / "spark", properties, "aging") as spark:
        for _ in range(times + 1):
            for table, seconds in taken.items():
                seconds.append(_scan(spark, f"{catalog}.{table}"))
    aged, compacted = (statistics.median(seconds[1:]) for seconds in taken.values())
    return {"aged": aged, "compacted": compacted, "ratio": aged / compacted}


def _scan(spark: SparkSession, name: str) -> float:
    began = time.perf_counter()
    spark.sql(f"SELECT count(*), sum(hash(*)) FROM {name}").collect()
    return time.perf_counter() - began
