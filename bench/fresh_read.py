"""Fresh reads in Spark beside the lake copy: log tables with 0, 1 and 10 % of the rows only in the log, and a table with changed keys.

    .venv/bin/python bench/fresh_read.py [--rows 20000000] [--keys 10000000] [--fluss HOST:PORT]

lake        `fluss.db.t$lake`, the lake copy through the plugin
fresh       `fluss.db.t`: the lake copy and the log
iceberg     `lake.db.t`, Iceberg's own catalog without the plugin

A real coordinator process, a real tierer that tiers the first part, and one Spark session (`local[2]`) with two cores. Two statements:
**all** computes a hash over every column of every row, **one column** a sum. The names take turns, every other time in the opposite order;
medians. **Log part** is the fresh read of a table that is in the log alone, in rows per second and core. **Point query** selects one row
by its key. Of the primary-key table 1 % of the keys were changed after the round. Prints a table with the machine's load before and after;
the last line is one JSON object. `--fluss` uses a Fluss cluster instead of the embedded one. The bench creates a database in it, and
drops its tables in the end.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import idle
import numpy as np
import pyarrow as pa
import running.tests_path  # noqa: F401  # what is imported next needs it
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from rounds.sources import FLIGHTS
from running.figures import finish, parse, verdict

from support.running.spark_sessions import spark_session
from tiering.cli.service_cluster import writable_cluster
from tiering.cli.service_lake import service_lake
from tiering.cli.spark.properties import CATALOG, catalog_lake_properties, catalog_properties, plugin_jar
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec, WritableCluster
from tiering.model.tables import TablePath

DATABASE = "fresh_read"
BUCKETS = 4
CORES = 2
SHARES = (0.0, 0.01, 0.1)
"""Shares of the rows that are only in the log, ascending: each one adds to the one before."""
CHANGED_SHARE = 0.01
LOG_TARGET, KEY_TARGET = 1.15, 2.0
"""Upper bounds of fresh / lake, of a log table with 1 % in the log and of the primary-key table."""
LOG_PART_TARGET = 1e6
"""Lower bound of the log part's rows per second and core."""
POINT_TARGET_MS = 300.0
STATEMENTS = {"all": "SELECT sum(hash(*)) FROM {}", "one column": "SELECT sum(distance_km) FROM {}"}
Scan = dict[str, dict[str, float]]
"""Milliseconds by statement and name of the table."""


def sql_names(table: str) -> dict[str, str]:
    """Returns the names of a table in SQL: of its lake copy, of the fresh read, and in Iceberg's own catalog."""
    return {"lake": f"{CATALOG}.{DATABASE}.`{table}$lake`", "fresh": f"{CATALOG}.{DATABASE}.{table}", "iceberg": f"lake.{DATABASE}.{table}"}


class Bench:
    """A service and its tables."""

    def __init__(self, uri: str, cluster: WritableCluster, scratch: Path) -> None:
        self.uri = uri
        self._cluster = cluster
        self._scratch = scratch
        self._next_row = 0

    def create(self, table: str, primary_key: tuple[str, ...] = ()) -> None:
        """Creates a table with the columns of flights."""
        properties = {"table.datalake.enabled": "true", "table.datalake.freshness": "12 h"}
        schema = pa.schema([field.with_nullable(field.name not in primary_key) for field in FLIGHTS.schema])
        self._cluster.create_table(TablePath(DATABASE, table), TableSpec(schema, BUCKETS, properties=properties, primary_key=primary_key))

    def drop(self) -> None:
        """Drops all tables of the bench's database. A Fluss cluster would keep them, and a second run would find them."""
        for table in self._cluster.tables(DATABASE):
            self._cluster.drop_table(table.path)

    def append(self, table: str, rows: int) -> None:
        """Appends rows to a log table."""
        writer = LogWriter(self._cluster, TablePath(DATABASE, table), f"bench-{self._next_row}")
        for batch in FLIGHTS.batches(rows, self._scratch):
            writer.append(batch)
        self._next_row += 1

    def upsert(self, table: str, ids: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        """Writes rows with these keys, in their order."""
        schema = pa.schema([FLIGHTS.schema.field(0).with_nullable(False), *list(FLIGHTS.schema)[1:]])
        writer, start = LogWriter(self._cluster, TablePath(DATABASE, table), f"bench-{self._next_row}"), 0
        for batch in FLIGHTS.batches(len(ids), self._scratch):
            part = pa.array(ids[start : start + batch.num_rows])
            writer.upsert(pa.RecordBatch.from_arrays([part, *batch.columns[1:]], schema=schema))
            start += batch.num_rows
        self._next_row += 1

    def tier(self, table: str) -> None:
        """Tiers everything that is in the log, and waits."""
        command = [sys.executable, "-m", "tiering.cli.main", "tier", f"{DATABASE}.{table}", "--uri", self.uri]
        subprocess.run(command, check=True, capture_output=True)


def milliseconds(spark: SparkSession, sql: str) -> tuple[float, object]:
    """The time of a statement, and the first value of its answer."""
    start = time.perf_counter()
    rows = spark.sql(sql).collect()
    return (time.perf_counter() - start) * 1_000, rows[0][0] if rows else None


def scan(spark: SparkSession, table: str, times: int) -> Scan:
    """Measures the statements on a table by each of its names."""
    taken: Scan = {}
    for name, sql in STATEMENTS.items():
        runs: dict[str, list[float]] = {label: [] for label in sql_names(table)}
        for number in range(times + 1):
            turn = list(sql_names(table).items())
            for label, full_name in turn if number % 2 else reversed(turn):
                spent, _ = milliseconds(spark, sql.format(full_name))
                if number:  # the first run warms up
                    runs[label].append(spent)
        taken[name] = {label: statistics.median(run) for label, run in runs.items()}
    return taken


def check(spark: SparkSession, table: str, fresh: int, lake: int) -> None:
    """A benchmark of a wrong answer is worth nothing."""
    counts = [milliseconds(spark, f"SELECT count(tail_number) FROM {sql_names(table)[label]}")[1] for label in ("fresh", "lake")]
    if counts != [fresh, lake]:
        raise SystemExit(f"{table}: fresh and lake have {counts} rows instead of {[fresh, lake]}")


def median_ms(work: Callable[[], float], times: int) -> float:
    """The median of the milliseconds that `work` returns. The first three runs warm up."""
    return statistics.median([work() for _ in range(times + 3)][3:])


def measure(bench: Bench, spark: SparkSession, rows: int, keys: int, times: int) -> dict[str, object]:
    """All figures, one after the other."""
    first = rows - int(rows * SHARES[-1])
    bench.create("flights")
    bench.append("flights", first)
    bench.tier("flights")
    figures: dict[str, object] = {}
    in_log = 0
    for share in SHARES:
        new = int(rows * share) - in_log
        if new:
            bench.append("flights", new)
        in_log += new
        check(spark, "flights", first + in_log, first)
        figures[f"log {share:.0%}"] = scan(spark, "flights", times)
    bench.create("in_log")
    bench.append("in_log", max(int(rows * SHARES[-1]), 1))
    sql = STATEMENTS["all"].format(sql_names("in_log")["fresh"])
    taken = median_ms(lambda: milliseconds(spark, sql)[0], times)
    figures["log_part_rows_per_second_per_core"] = max(int(rows * SHARES[-1]), 1) / (taken / 1_000) / CORES
    bench.create("keyed", primary_key=("flight_id",))
    bench.upsert("keyed", np.arange(keys, dtype=np.int64))
    bench.tier("keyed")
    changed = np.sort(np.random.default_rng(7).permutation(keys)[: max(int(keys * CHANGED_SHARE), 1)])
    bench.upsert("keyed", changed)
    check(spark, "keyed", keys, keys)
    figures["keys 1%"] = scan(spark, "keyed", times)
    point = f"SELECT * FROM {sql_names('keyed')['fresh']} WHERE flight_id = {int(changed[0])}"
    figures["point_query_ms"] = median_ms(lambda: milliseconds(spark, point)[0], times * 3)
    return figures


@contextmanager
def service(work: Path, fluss: str | None) -> Iterator[str]:
    """Yields the uri of a coordinator with a tierer."""
    options = (
        () if fluss is None else ("--fluss", fluss, "--fluss-cluster-id", "bench", "--fluss-mode", "exclusive", "--create-lake-tables")
    )
    log = work / "coordinator.out"
    with ExitStack() as opened:
        arguments = ("--data", str(work / "data"), "--port", "0", "--log-level", "warning", *options)
        opened.enter_context(idle.process("coordinator", *arguments, log=log))
        uri = idle.wait_for_line(log, "lakeward is ready: ", seconds=600).split(": ")[1].strip()
        tierer = ("--uri", uri, "--master", f"local[{CORES}]", "--log-level", "warning")
        opened.enter_context(idle.process("tierer", *tierer, log=work / "tierer.out"))
        yield uri


def ratio(scans: object, statement: str) -> float:
    """fresh / lake."""
    assert isinstance(scans, dict)
    return float(scans[statement]["fresh"] / scans[statement]["lake"])


def show(figures: dict[str, object]) -> None:
    """Prints a row for each table and statement, and the verdicts."""
    console = Console(width=110)
    table = Table("table", "statement", "lake ms", "fresh ms", "iceberg ms", "fresh / lake", title="Fresh reads")
    for name, scans in figures.items():
        if isinstance(scans, dict):
            for statement, taken in scans.items():
                times = [f"{taken[label]:.0f}" for label in ("lake", "fresh", "iceberg")]
                table.add_row(name, statement, *times, f"{ratio(scans, statement):.2f}")
    console.print(table)
    rate, point = float(str(figures["log_part_rows_per_second_per_core"])), float(str(figures["point_query_ms"]))
    lines = {
        f"log table with 1 % in the log: at most {LOG_TARGET} x": verdict(ratio(figures["log 1%"], "all"), LOG_TARGET),
        f"primary-key table: at most {KEY_TARGET} x": verdict(ratio(figures["keys 1%"], "all"), KEY_TARGET),
        f"log part: {rate:,.0f} rows/s per core, at least {LOG_PART_TARGET:,.0f}": "met" if rate >= LOG_PART_TARGET else "missed",
        f"point query: {point:.0f} ms, at most {POINT_TARGET_MS:.0f}": verdict(point, POINT_TARGET_MS),
    }
    for text, outcome in lines.items():
        console.print(f"{text}: {outcome}", highlight=False)
    console.print(f"load before {figures['load_before']}, after {figures['load_after']}", highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000, help="of the log table")
    parser.add_argument("--keys", type=int, default=10_000_000, help="of the primary-key table")
    parser.add_argument("--times", type=int, default=5, help="how often each statement is measured; the median counts")
    parser.add_argument("--fluss", help="servers of a Fluss cluster; default: the embedded cluster")
    parser.add_argument("--work", type=Path, help="folder for data; default: a temporary one")
    arguments = parse(parser, rows=20_000, keys=5_000, times=1)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each child would compile us anew, which an installed package never does
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    before = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(dir=arguments.work) as name,
        service(Path(name), arguments.fluss) as uri,
        writable_cluster(uri) as cluster,
    ):
        cluster.create_database(DATABASE, ignore_if_exists=True)
        lake = catalog_lake_properties(service_lake(uri).properties)
        properties = {**catalog_properties(uri, plugin_jar()), **lake}
        with spark_session(Path(name) / "warehouse", properties, "bench") as spark:
            bench = Bench(uri, cluster, Path(name))
            try:
                figures = measure(bench, spark, arguments.rows, arguments.keys, arguments.times)
            finally:
                bench.drop()
    sizes = {"bench": "fresh_read", "rows": arguments.rows, "keys": arguments.keys, "cores": CORES, "fluss": arguments.fluss is not None}
    loads = {"load_before": round(before, 2), "load_after": round(os.getloadavg()[0], 2)}
    report = {**sizes, **figures, **loads}
    finish(report, partial(show, report))


if __name__ == "__main__":
    main()
