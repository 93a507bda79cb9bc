"""Changes of a lake table by other tools through Spark: compactions, cut in two where a test needs it, and equality deletes."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from support.clusters.primary_key_table import PrimaryKeyTable
from support.running.processes import wait_for
from tiering.model.tables import TablePath


def local_path(location: str) -> str:
    """Java writes `file:/a`, pyiceberg `file:///a`."""
    return "/" + location.removeprefix("file:").lstrip("/")


def compact(spark: SparkSession, table: PrimaryKeyTable) -> int:
    """Rewrites everything; the number of files that it replaced."""
    statement = f"CALL lake.system.rewrite_data_files(table => '{table.info.path}', options => map('rewrite-all', 'true'))"
    return int(spark.sql(statement).collect()[0]["rewritten_data_files_count"])


def rewrite_position_delete_files(spark: SparkSession, path: TablePath) -> int:
    """Rewrites all files of position deletes, without deletes of rows in data files that are gone; the number of files that it replaced."""
    spark.sql(f"REFRESH TABLE lake.{path}")
    statement = f"CALL lake.system.rewrite_position_delete_files(table => '{path}', options => map('rewrite-all', 'true'))"
    return int(spark.sql(statement).collect()[0]["rewritten_delete_files_count"])


def delete_by_equality(spark: SparkSession, table: PrimaryKeyTable, *ids: int) -> None:
    """One file of equality deletes in the first data file's partition, committed by Iceberg's row delta."""
    jvm: Any = spark._jvm
    loaded = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"lake.{table.info.path}")
    field_id = loaded.schema().findField("id").fieldId()
    location = loaded.locationProvider().newDataLocation("equality-deletes.parquet")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(field_id)})])
    pq.write_table(pa.table([pa.array(ids)], schema=schema), local_path(location))
    keys = spark._sc._gateway.new_array(jvm.int, 1)  # type: ignore[union-attr]
    keys[0] = field_id
    deletes = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(loaded.spec()).ofEqualityDeletes(keys).withFormat("PARQUET")
    deletes = deletes.withPath(location).withFileSizeInBytes(Path(local_path(location)).stat().st_size).withRecordCount(len(ids))
    deletes = deletes.withPartition(loaded.newScan().planFiles().iterator().next().file().partition())
    loaded.newRowDelta().addDeletes(deletes.build()).commit()


class RunningCompaction:
    """`procedure` under way: it has planned on the snapshot of its beginning and waits for a core to rewrite files on."""

    def __init__(
        self, spark: SparkSession, table: PrimaryKeyTable, procedure: Callable[[SparkSession, PrimaryKeyTable], int] = compact
    ) -> None:
        self._spark, self._table, self._procedure = spark, table, procedure
        self._gate = table.kit.folder / f"gate-{table.info.path.table_name}"
        self._said = ""
        self._blocker = threading.Thread(target=self._occupy)
        self._call = threading.Thread(target=self._compact)

    def __enter__(self) -> RunningCompaction:
        self._blocker.start()
        wait_for("all cores to be taken", lambda: self._running_tasks() == self._spark.sparkContext.defaultParallelism)
        self._call.start()
        wait_for("the compaction's job", lambda: len(self._spark.sparkContext.statusTracker().getActiveJobsIds()) == 2)
        return self

    def end(self) -> str:
        """Lets it go on to its end; what Spark said if it failed."""
        self._gate.touch()
        self._call.join(120)
        assert not self._call.is_alive()
        return self._said

    def __exit__(self, *_: object) -> None:
        self._gate.touch()
        self._call.join(120)
        self._blocker.join(120)

    def _running_tasks(self) -> int:
        tracker = self._spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds()]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        return sum(stage.numActiveTasks for stage in stages if stage is not None)

    def _occupy(self) -> None:
        gate = str(self._gate)

        def wait(rows: Any) -> Any:
            while not os.path.exists(gate):
                time.sleep(0.02)
            return rows

        cores = self._spark.sparkContext.defaultParallelism
        self._spark.sparkContext.parallelize(range(cores), cores).mapPartitions(wait).count()

    def _compact(self) -> None:
        try:
            self._procedure(self._spark, self._table)
        except Exception as error:
            self._said = str(error)


class StagedCompaction:
    """A `rewrite_data_files` that is cut in two: files are rewritten at once, `commit` comes later.

    The commit is Iceberg's own, built as its `RewriteDataFilesCommitManager` builds it. The rewritten file is a copy.
    """

    def __init__(self, spark: SparkSession, table: PrimaryKeyTable, bucket: int = 0) -> None:
        jvm: Any = spark._jvm
        loaded = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"lake.{table.info.path}")
        snapshot = loaded.currentSnapshot()
        self._rewrite = loaded.newRewrite().validateFromSnapshot(snapshot.snapshotId())
        self._rewrite.dataSequenceNumber(snapshot.sequenceNumber())
        tasks = loaded.newScan().planFiles().iterator()
        while tasks.hasNext():
            task = tasks.next()
            if task.partition().get(0, jvm.java.lang.Class.forName("java.lang.Integer")) == bucket:
                copy = task.file().location().replace(".parquet", "-compacted.parquet")
                shutil.copy(local_path(task.file().location()), local_path(copy))
                copied = jvm.org.apache.iceberg.DataFiles.builder(loaded.spec()).copy(task.file()).withPath(copy).build()
                self._rewrite.deleteFile(task.file())
                self._rewrite.addFile(copied)

    def commit(self) -> None:
        self._rewrite.commit()
