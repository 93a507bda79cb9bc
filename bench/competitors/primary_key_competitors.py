"""Competitors of a round of a primary-key table: the floor, Spark's MERGE INTO, and deltalake's merge."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rounds.primary_key_source import Round

from tiering.cli.spark.jars import ICEBERG_RUNTIME, jar_path
from tiering.model.tables import ChangeType


@dataclass(frozen=True)
class FloorJob:
    """One bucket: the data files that stand, the log to write, and the columns that the lake has."""

    data_files: tuple[str, ...]
    log: str
    target: str
    columns: tuple[str, ...]


def floor(job: FloorJob) -> int:
    """Reads the key column of all files once, and writes the log's rows that stay, with no thought of which they are; keys read."""
    keys = sum(pq.read_table(path, columns=["id"], use_threads=False).num_rows for path in job.data_files)
    with pa.OSFile(job.log) as source:
        rows = pa.ipc.open_file(source).read_all()
    stay = pc.is_in(rows["__change_type"], value_set=pa.array([ChangeType.INSERT, ChangeType.UPDATE_AFTER], pa.int8()))
    encodings = {name: "DELTA_BINARY_PACKED" for name in job.columns if name not in ("name", "amount")}
    pq.write_table(
        rows.select(job.columns).filter(stay),
        job.target,
        compression="zstd",
        use_dictionary=["name"],
        column_encoding={**encodings, "amount": "BYTE_STREAM_SPLIT"},
    )
    return keys


class SparkMerge:
    """Iceberg through Spark, merge-on-read, partitioned as the lake table is."""

    def __init__(self, work: Path, cores: int, buckets: int) -> None:
        self._work = work
        self._buckets = buckets
        self._spark = (
            SparkSession.builder.master(f"local[{cores}]")
            .appName("merge into")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", "6g")
            .config("spark.sql.shuffle.partitions", str(2 * cores))
            .config("spark.jars", str(jar_path(ICEBERG_RUNTIME)))
            .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
            .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
            .config("spark.sql.catalog.ice.type", "hadoop")
            .config("spark.sql.catalog.ice.warehouse", str(work / "warehouse"))
            .getOrCreate()
        )
        self._spark.sparkContext.setLogLevel("ERROR")

    def load(self, name: str, first: Round) -> None:
        modes = ", ".join(f"'write.{kind}.mode' = 'merge-on-read'" for kind in ("delete", "update", "merge"))
        self._spark.sql(
            f"CREATE TABLE ice.bench.{name} (id BIGINT NOT NULL, visits INT, amount DOUBLE, visited_at TIMESTAMP_NTZ, name STRING) "
            "USING iceberg "
            f"PARTITIONED BY (bucket({self._buckets}, id)) "
            f"TBLPROPERTIES ('format-version' = '2', 'write.parquet.compression-codec' = 'zstd', {modes})"
        )
        self._view(first)
        self._spark.sql(f"INSERT INTO ice.bench.{name} SELECT id, visits, amount, visited_at, name FROM changes")

    def merge(self, name: str, changes: Round) -> float:
        """Seconds."""
        self._view(changes)
        columns = ("id", "visits", "amount", "visited_at", "name")
        start = time.perf_counter()
        self._spark.sql(
            f"MERGE INTO ice.bench.{name} t USING changes s ON t.id = s.id "
            f"WHEN MATCHED AND s.op = {int(ChangeType.DELETE)} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{column} = s.{column}' for column in columns)} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(columns)}) VALUES ({', '.join(f's.{column}' for column in columns)})"
        )
        taken = time.perf_counter() - start
        count = self._spark.sql(f"SELECT count(*) FROM ice.bench.{name}").collect()[0][0]
        if count != changes.rows_after:
            raise SystemExit(f"MERGE INTO left {count} of {changes.rows_after} rows")
        return taken

    def memory_mb(self) -> float:
        """Peak of the JVM."""
        pid = self._spark._jvm.java.lang.ProcessHandle.current().pid()
        return peak_mb(f"/proc/{pid}/status")

    def stop(self) -> None:
        self._spark.stop()

    def _view(self, changes: Round) -> None:
        self._spark.read.parquet(str(changes.merge)).createOrReplaceTempView("changes")


class DeltaMerge:
    """deltalake's merge, partitioned by nothing: its join has to read the whole table either way."""

    def __init__(self, work: Path) -> None:
        import deltalake

        self._delta: Any = deltalake
        self._work = work

    def load(self, name: str, first: Round) -> None:
        self._delta.write_deltalake(str(self._work / f"delta-{name}"), pq.read_table(first.merge).drop_columns(["op"]))

    def merge(self, name: str, changes: Round) -> float:
        """Seconds."""
        rows = pq.read_table(changes.merge)
        columns = {column: f"s.{column}" for column in rows.column_names if column != "op"}
        start = time.perf_counter()
        table = self._delta.DeltaTable(str(self._work / f"delta-{name}"))
        merger = table.merge(rows, predicate="t.id = s.id", source_alias="s", target_alias="t")
        merger = merger.when_matched_delete(predicate=f"s.op = {int(ChangeType.DELETE)}")
        merger.when_matched_update(updates=columns).when_not_matched_insert(updates=columns).execute()
        taken = time.perf_counter() - start
        count = pc.sum(pa.table(table.get_add_actions(flatten=True))["num_records"]).as_py()  # it copies on write
        if count != changes.rows_after:
            raise SystemExit(f"deltalake left {count} of {changes.rows_after} rows")
        return taken


@contextmanager
def clean(folder: Path) -> Iterator[Path]:
    """A folder that is gone afterwards."""
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def peak_mb(status: str = "/proc/self/status") -> float:
    """Peak resident memory of a process in MiB (VmHWM)."""
    line = next(line for line in Path(status).read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def forget_peak() -> None:
    """Peak memory of this process is counted anew from here (Linux, `clear_refs`)."""
    Path("/proc/self/clear_refs").write_text("5")
