"""The baseline of bench/validate.py: DuckDB alone counts and checksums the two sides, with the simplest queries.

The queries are `count(*)` and the sum of the hashes of all user columns. They read the lake's files without the rows that delete files
name, and the log's segments, mapped into memory. Nothing is verified, and no offset is read. In a primary-key table the log has more rows
than the lake. A second query, the fold, takes only the newest change of each key, so that both sides can be equal.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from tiering.model.tables import ChangeType

Digest = tuple[int, int]
"""Rows, and the sum of their hashes."""


@dataclass(frozen=True)
class OwnJob:
    """`segments`: of all buckets, in order. `key` is empty for a log table."""

    data_files: tuple[str, ...]
    delete_files: tuple[str, ...]
    segments: tuple[str, ...]
    columns: tuple[str, ...]
    key: tuple[str, ...]
    memory_limit: str
    threads: int


@dataclass(frozen=True)
class OwnFigures:
    """Seconds and CPU seconds of the two plain scans, of lake and log; of a primary-key table also with the fold instead of the
    log's. `peak_mb`: of the process."""

    seconds: float
    cpu: float
    fold_seconds: float
    fold_cpu: float
    peak_mb: float
    lake: Digest
    log: Digest
    folded: Digest


def run(job: OwnJob) -> OwnFigures:
    """In a process of its own, for the peak's sake."""
    settings: dict[str, Any] = {"memory_limit": job.memory_limit, "threads": job.threads, "preserve_insertion_order": False}
    with duckdb.connect(config=settings) as connection:
        connection.execute("SET enable_progress_bar = false").fetchall()
        lake, lake_s, lake_cpu = _timed(connection, _lake_query(job))
        log, log_s, log_cpu = _timed_log(connection, job, f"SELECT count(*), sum({_digest(job)}) FROM log")
        folded, fold_s, fold_cpu = _timed_log(connection, job, _fold_query(job)) if job.key else (log, log_s, log_cpu)
    return OwnFigures(lake_s + log_s, lake_cpu + log_cpu, lake_s + fold_s, lake_cpu + fold_cpu, peak_mb(), lake, log, folded)


def _timed(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[Digest, float, float]:
    start, start_cpu = time.perf_counter(), time.process_time()
    [(rows, total)] = connection.execute(sql).fetchall()
    return (int(rows), int(total)), time.perf_counter() - start, time.process_time() - start_cpu


def _timed_log(connection: duckdb.DuckDBPyConnection, job: OwnJob, sql: str) -> tuple[Digest, float, float]:
    batches = _batches(job)
    first = next(batches)
    connection.register("log", pa.RecordBatchReader.from_batches(first.schema, chain([first], batches)))
    return _timed(connection, sql)


def _digest(job: OwnJob) -> str:
    return f"hash({', '.join(job.columns)})"


def _lake_query(job: OwnJob) -> str:
    if not job.delete_files:
        return f"SELECT count(*), sum({_digest(job)}) FROM read_parquet({_list(job.data_files)}, hive_partitioning = false)"
    return (
        f"SELECT count(*), sum({_digest(job)}) FROM read_parquet({_list(job.data_files)}, filename = true, file_row_number = true, "
        f"hive_partitioning = false) AS d ANTI JOIN read_parquet({_list(job.delete_files)}) AS p "
        "ON d.filename = replace(p.file_path, 'file://', '') AND d.file_row_number = p.pos"
    )


def _fold_query(job: OwnJob) -> str:
    newest = f"arg_max({_digest(job)}, seq) AS digest, arg_max(__change_type, seq) AS change"
    return (
        f"SELECT count(*), sum(digest) FROM (SELECT {newest} FROM log WHERE __change_type <> {int(ChangeType.UPDATE_BEFORE)} "
        f"GROUP BY {', '.join(job.key)}) WHERE change <> {int(ChangeType.DELETE)}"
    )


def _list(paths: Sequence[str]) -> str:
    return "[" + ", ".join(f"'{path}'" for path in paths) + "]"


def _batches(job: OwnJob) -> Iterator[pa.RecordBatch]:
    """A number in order beside each change of a primary-key table: a key is in one bucket only, whose segments are in order."""
    rows_read = 0
    for path in job.segments:
        with pa.memory_map(path) as source:
            batch = pa.ipc.open_file(source).get_batch(0)
        if job.key:
            sequence = pa.array(np.arange(rows_read, rows_read + batch.num_rows))
            batch = batch.append_column("seq", sequence)
        rows_read += batch.num_rows
        yield batch


def peak_mb(process: str = "self") -> float:
    """Peak resident memory in MiB of a process that lives; 0 if it does not any more."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    lines = [line for line in text.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) / 1_024 if lines else 0.0


def cpu_seconds(pid: int) -> float:
    """User and system time of a process that lives; 0 if it does not any more."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
