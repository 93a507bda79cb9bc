"""Full scans of a lake table and of a compacted copy of it: how much slower a reader is because of the table's age."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa
from pyiceberg.manifest import clear_manifest_cache
from upkeep.health import iceberg_table, paimon_table
from upkeep.rows import SCHEMA
from upkeep.world import AgingWorld

from tiering.lake.schema.sql_text import quoted
from tiering.model.tables import TablePath
from tiering.validate.duckdb_rows import LakeColumns, live_rows


def scan_seconds(world: AgingWorld, path: TablePath, copy: TablePath, times: int) -> dict[str, dict[str, float]]:
    """By reader the seconds of a scan of `path` and of its `copy`, and their ratio: medians of `times` scans, in turns.

    `cpu_ratio` is the ratio of the CPU times of this process, which other work on the machine changes little.
    """
    figures = {}
    for reader in readers(world):
        taken = [(_taken(world, path, reader), _taken(world, copy, reader)) for _ in range(times)]
        (aged, aged_cpu), (compacted, compacted_cpu) = (
            (statistics.median(wall for wall, _ in scans), statistics.median(cpu for _, cpu in scans)) for scans in zip(*taken, strict=True)
        )
        figures[reader] = {"aged": aged, "compacted": compacted, "ratio": aged / compacted, "cpu_ratio": aged_cpu / compacted_cpu}
    return figures


def readers(world: AgingWorld) -> tuple[str, str]:
    """Names of the readers in this process."""
    return ("pypaimon" if world.kind.format == "paimon" else "pyiceberg", "duckdb")


def read(world: AgingWorld, path: TablePath, reader: str) -> pa.Table:
    """All rows of the table in its source's columns, from looking the table up on."""
    if reader == "duckdb":
        return _by_duckdb(world, path)
    return (_by_pypaimon if reader == "pypaimon" else _by_pyiceberg)(world, path)


def _taken(world: AgingWorld, path: TablePath, reader: str) -> tuple[float, float]:
    """Seconds of a scan, and its CPU seconds."""
    began, began_cpu = time.perf_counter(), time.process_time()
    read(world, path, reader)
    return time.perf_counter() - began, time.process_time() - began_cpu


def _by_pyiceberg(world: AgingWorld, path: TablePath) -> pa.Table:
    clear_manifest_cache()
    return iceberg_table(world.iceberg_catalog(), path).scan(selected_fields=tuple(SCHEMA.names)).to_arrow()


def _by_pypaimon(world: AgingWorld, path: TablePath) -> pa.Table:
    builder = paimon_table(world, path).new_read_builder().with_projection(SCHEMA.names)
    rows: pa.Table = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return rows


def _by_duckdb(world: AgingWorld, path: TablePath) -> pa.Table:
    """DuckDB reads the files that the lake lists, as `lakeward validate` does."""
    clear_manifest_cache()
    view = world.lake.view(path)
    if view is None:
        raise SystemExit(f"there is no lake table {path}")
    files = world.lake.file_lists(view, view.head)
    with duckdb.connect() as connection:

        def run(sql: str, parameters: Mapping[str, object]) -> list[tuple[Any, ...]]:
            return connection.execute(sql, parameters).fetchall()

        run("SET TimeZone = 'UTC'", {})
        live = live_rows(run, files, LakeColumns(dict.fromkeys(SCHEMA.names, "BIGINT")), path)
        columns = ", ".join(f"{live.expressions[name]} AS {quoted(name)}" for name in SCHEMA.names)
        relation: Any = connection.sql(f"SELECT {columns} FROM {live.relation}")
        rows: pa.Table = relation.to_arrow_table()
        return rows
