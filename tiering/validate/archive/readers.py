"""The numbers of rows that the installed readers of lake tables count, for a proof."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from tiering.lake.base import Lake
from tiering.lake.proof.reader_counts import NOT_INSTALLED, CountingLake, ReaderCount
from tiering.lake.registry import spark_runtime
from tiering.validate.archive import spark_reader
from tiering.validate.archive.spark_reader import SparkReader
from tiering.validate.subject import Subject

DUCKDB_NOTE = "reads the Parquet files of the snapshot, with the statements of this proof"

LIBRARY_NOTE = "reads the snapshot through the lake's catalog"


def reader_counts(lake: Lake, subject: Subject, stored_rows: int, spark: SparkReader) -> list[dict[str, Any]]:
    """Returns a row per reader. `stored_rows`: what DuckDB counted."""
    rows = [_row("DuckDB", duckdb.__version__, stored_rows, DUCKDB_NOTE)]
    snapshot_id = subject.files.snapshot_id
    if isinstance(lake, CountingLake) and snapshot_id is not None:
        counts = [*lake.count_rows(subject.view, snapshot_id), _by_spark(lake, subject, snapshot_id, spark)]
        rows += [_row(count.reader, count.version, count.rows, count.note or LIBRARY_NOTE) for count in counts]
    return rows


def _by_spark(lake: Lake, subject: Subject, snapshot_id: int, spark: SparkReader) -> ReaderCount:
    if (runtime := spark_runtime(lake.format)) is not None:
        return ReaderCount(spark_reader.READER, None, None, f"{NOT_INSTALLED}: it needs {runtime}, which Lakeward cannot configure")
    size_bytes = sum(Path(file.path).stat().st_size for file in subject.files.all_files)
    return spark.for_table(size_bytes).count(subject.view.path, snapshot_id)


def _row(reader: str, version: str | None, rows: int | None, note: str) -> dict[str, Any]:
    return {"reader": reader, "version": version, "rows": rows, "note": note}
