"""Spark Structured Streaming into Iceberg, with Iceberg's own compaction beside it: what people do without Lakeward.

The rows come as Parquet files of a second each, since no connector for Fluss runs on this Spark. The bench gives a stream a
micro-batch every half freshness. Another thread calls Iceberg's procedures for each table in turn.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from rounds.sources import FLIGHTS
from steady.lag import Landing, Step
from steady.on_lakeward import CATCH_UP_S, LOOK_S, step_of
from steady.writer import FolderTarget, Order, Progress, writing

from tiering.cli.spark.jars import ICEBERG_RUNTIME, jar_path

CATALOG = "ice"
KEPT_SNAPSHOTS = 10
PROPERTIES = {
    "write.parquet.compression-codec": "zstd",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
_SCHEMA = "flight_id BIGINT, delay_minutes INT, distance_km DOUBLE, departed_at TIMESTAMP, tail_number STRING"
assert len(_SCHEMA.split(",")) == len(FLIGHTS.schema)


@dataclass(frozen=True)
class SparkSettings:
    """How often each stream has a micro-batch, and how long after one compaction of all tables the next one begins."""

    cores: int
    trigger_s: float
    compaction_s: float


class OnSpark:
    """One table after the other, beside the same small ones. All streams and the compaction share a session."""

    def __init__(self, spark: SparkSession, folder: Path, tables: int, settings: SparkSettings) -> None:
        self._spark, self._folder, self._settings = spark, folder, settings
        self._steps = 0
        self._small = tuple(f"small{number:03d}" for number in range(tables))
        self._streams = {name: self._stream(name) for name in self._small}

    def step(self, rate: float, seconds: float) -> Step:
        """A new table that gets so many rows a second."""
        self._steps += 1
        order = Order(f"steady{self._steps}", self._small, rate, seconds)
        stream = self._stream(order.table)
        ended = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            upkeep = pool.submit(self._keep_up, (order.table, *self._small), ended)
            try:
                with writing(FolderTarget(self._folder / "source"), order) as progress:
                    landings = self._watch(order, progress, stream)
            finally:
                ended.set()
            upkeep.result()  # raises what a procedure raised: figures without upkeep are not those that were asked for
        stream.stop()
        return step_of(order, landings, [], progress.behind_s, _total(self._metadata(order.table), "total-data-files"))

    def _stream(self, name: str) -> StreamingQuery:
        source = self._folder / "source" / name
        source.mkdir(parents=True)
        columns = ", ".join(f"{key!r} = {value!r}" for key, value in PROPERTIES.items())
        self._spark.sql(f"CREATE TABLE {CATALOG}.bench.{name} ({_SCHEMA}) USING iceberg TBLPROPERTIES ({columns})")
        return (
            self._spark.readStream.schema(_SCHEMA)
            .parquet(str(source))
            .writeStream.format("iceberg")
            .trigger(processingTime=f"{self._settings.trigger_s * 1_000:.0f} milliseconds")
            .option("checkpointLocation", str(self._folder / "checkpoints" / name))
            .toTable(f"{CATALOG}.bench.{name}")
        )

    def _watch(self, order: Order, progress: Progress, stream: StreamingQuery) -> list[Landing]:
        start, landings = progress.wait_for_start(), list[Landing]()
        while True:
            rows = _total(self._metadata(order.table), "total-records") or 0
            at = time.time() - start
            landings.append(Landing(at, rows))
            if rows >= order.rows or at > order.seconds + CATCH_UP_S:
                return landings
            if (error := stream.exception()) is not None:
                raise SystemExit(f"the stream into {order.table} failed: {error}")
            time.sleep(LOOK_S)

    def _keep_up(self, tables: tuple[str, ...], ended: threading.Event) -> None:
        """Compacts each table and expires its snapshots, again and again."""
        while not ended.wait(self._settings.compaction_s):
            for name in tables:
                table = f"table => 'bench.{name}'"
                now = datetime.now(UTC).strftime("TIMESTAMP '%Y-%m-%d %H:%M:%S'")
                for call in ("rewrite_data_files", "rewrite_manifests", "expire_snapshots"):
                    more = f", older_than => {now}, retain_last => {KEPT_SNAPSHOTS}" if call == "expire_snapshots" else ""
                    if ended.is_set():
                        return
                    self._spark.sql(f"CALL {CATALOG}.system.{call}({table}{more})").collect()

    def _metadata(self, name: str) -> dict[str, object]:
        """The table's newest metadata file. It is looked up anew if that or the hint is replaced meanwhile."""
        folder = self._folder / "warehouse" / "bench" / name / "metadata"
        while True:
            try:
                version = int((folder / "version-hint.text").read_text())
                while (later := folder / f"v{version + 1}.metadata.json").exists():
                    version = int(later.name[1:].split(".")[0])
                metadata: dict[str, object] = json.loads((folder / f"v{version}.metadata.json").read_text())
            except FileNotFoundError:
                continue
            return metadata


def _total(metadata: dict[str, object], name: str) -> int | None:
    """A total of the newest snapshot's summary; None without a snapshot."""
    snapshots, head = metadata.get("snapshots"), metadata.get("current-snapshot-id")
    assert isinstance(snapshots, list)
    return next((int(snapshot["summary"].get(name, 0)) for snapshot in snapshots if snapshot["snapshot-id"] == head), None)


@contextmanager
def spark_streaming(folder: Path, tables: int, settings: SparkSettings) -> Iterator[OnSpark]:
    """A session, and the streams into the small tables."""
    folder.mkdir()
    spark = (
        SparkSession.builder.master(f"local[{settings.cores}]")
        .appName("sustained")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.metricsEnabled", "false")
        .config("spark.jars", str(jar_path(ICEBERG_RUNTIME)))
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config(f"spark.sql.catalog.{CATALOG}", "org.apache.iceberg.spark.SparkCatalog")
        .config(f"spark.sql.catalog.{CATALOG}.type", "hadoop")
        .config(f"spark.sql.catalog.{CATALOG}.warehouse", str(folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield OnSpark(spark, folder, tables, settings)
    finally:
        for stream in spark.streams.active:
            stream.stop()
        spark.stop()
