"""System tables in Spark SQL beside the same rows as a local relation of Spark, at several numbers of tables; and CALLs.

    .venv/bin/python bench/sys_query.py --tables 1 --tables 1000 --tables 10000 --tables 100000

A real coordinator process and one real Spark session (`local[2]`). Every question is asked many times when all is warm, the
ways in turn and every other time in the opposite order; medians. **sys** is `fluss.sys.lake_tiering_status`, **local** the same
rows as a `LocalRelation`, **server** the same question straight to the service, to the last byte, without Spark. Rows are
collected inside the JVM, so Python has no part in it.
Then `CALL sys.tier_table` with new rows (`running/tier_call.py`). Prints tables, with the machine's load before and after; the last line
is one JSON object.

    .venv/bin/python bench/sys_query.py --secured --tables 1000 --tables 10000

asks a plain coordinator and one behind TLS, tokens and policies the same questions in turn instead, and prints what these add
(`running/secured_queries.py`; target: at most 10 % through Spark).
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import idle
import pyarrow as pa
import running.tests_path  # noqa: F401  # what is imported next needs it
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from running import tier_call
from running.figures import finish, parse, verdict
from running.secured_queries import TARGET_PERCENT, SecuredFigures, in_pairs
from running.secured_service import SecuredService, secured_service

from support.running.spark_sessions import sessions_started_with
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.rpc.v1.sys_catalog_pb2_grpc import SysCatalogStub
from tiering.cli.spark.properties import CATALOG, CATALOG_CLASS, catalog_properties, plugin_jar
from tiering.rpc.v1 import common_pb2
from tiering.rpc.v1.common_pb2 import Literal
from tiering.wire.channel import Connection

STATUS = "fluss.sys.lake_tiering_status"
RARE_TABLES = 10
"""Due at once, with no tierer to take them: they wait as Pending among the many that are Scheduled."""

WARM_UP_ROUNDS = 10
"""Lowest number of warm-up runs of each question."""

QUESTIONS = {
    "all": "SELECT * FROM {}",
    "one name": "SELECT * FROM {} WHERE table_name = 't00000'",
    "rare status": "SELECT * FROM {} WHERE status = 'Pending'",
    "count": "SELECT count(*) FROM {}",
}


@dataclass(frozen=True)
class Figures:
    """Milliseconds of one question; `first_ms` is the server's first answer, which makes its columns."""

    tables: int
    question: str
    sys_ms: float
    local_ms: float
    server_ms: float
    first_ms: float

    @property
    def ratio(self) -> float:
        return self.sys_ms / self.local_ms


def requests() -> dict[str, pb.ReadTableRequest]:
    """The questions as the plugin puts them."""
    table: dict[str, Any] = {"namespace": "sys", "name": "lake_tiering_status", "null_columns": True}

    def equal(column: str, text: str) -> list[common_pb2.Filter]:
        return [common_pb2.Filter(column=column, operator=common_pb2.Filter.EQUAL, values=[Literal(text=text)])]

    return {
        "all": pb.ReadTableRequest(**table),
        "one name": pb.ReadTableRequest(**table, filters=equal("table_name", "t00000")),
        "rare status": pb.ReadTableRequest(**table, filters=equal("status", "Pending")),
        "count": pb.ReadTableRequest(**table, aggregates=[pb.Aggregate(function=pb.Aggregate.COUNT)]),
    }


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1_000


def count_of(stub: Any) -> int:
    """Tables that the coordinator knows."""
    pieces = b"".join(answer.arrow for answer in stub.ReadTable(requests()["count"]))
    return int(pa.ipc.open_stream(pieces).read_all().column(0)[0].as_py())


@contextmanager
def coordinator(work: Path, tables: int, secured: SecuredService | None = None) -> Iterator[str]:
    """A coordinator that knows so many tables, a few of them due; where it listens."""
    options, access = ((), None) if secured is None else (secured.options, secured.access)
    now = datetime.now(UTC)
    rare = min(RARE_TABLES, tables - 1)
    idle.make_tables(work / "data", "idle", tables - rare, "12 h", now)
    if rare:
        idle.make_tables(work / "data", "rare", rare, "1 s", now)
    log = work / "coordinator.out"
    with idle.process("coordinator", "--data", str(work / "data"), "--port", "0", "--log-level", "warning", *options, log=log):
        uri = idle.wait_for_line(log, "lakeward is ready: ", seconds=600).split(": ")[1].strip()
        with Connection(uri, access) as connection:
            end = time.monotonic() + 600
            while (known := count_of(SysCatalogStub(connection.channel))) < tables:
                if time.monotonic() > end:
                    raise SystemExit(f"the coordinator knows {known} of {tables} tables after 600 s")
                time.sleep(0.5)
        yield uri


def as_local(spark: SparkSession, name: str) -> None:
    """The rows of now as a view over a LocalRelation: `createDataFrame` of Python would make an RDD."""
    frame = spark.table(STATUS)._jdf
    java = spark._jsparkSession
    java.createDataFrame(frame.collectAsList(), frame.schema()).createOrReplaceTempView(name)


def collect(spark: SparkSession, sql: str) -> None:
    spark.sql(sql)._jdf.collectAsList().size()


def read_all(stub: Any, request: pb.ReadTableRequest) -> None:
    """Straight from the service, to the last byte."""
    for _ in stub.ReadTable(request):
        pass


def connected(spark: SparkSession, uri: str, secured: SecuredService | None = None) -> SparkSession:
    """A session of its own whose catalog `fluss` is the service at `uri`."""
    prefix = f"spark.sql.catalog.{CATALOG}."
    properties = catalog_properties(uri, plugin_jar()) | ({} if secured is None else secured.spark)
    with sessions_started_with(spark, CATALOG, CATALOG_CLASS) as make:
        return make({name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)})


def in_turn(readers: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Milliseconds of each reader, one after the other; the first one finds the machine's caches cold."""
    gc.collect()  # answers of 100,000 rows stay in the JVM until Python has let go of them
    return {name: milliseconds(read) for name, read in readers.items()}


def warm_up(readers: dict[str, Callable[[], object]], seconds: float) -> None:
    """Asks for so many seconds at least: while the JVM still compiles, it takes the core that the service needs."""
    start, rounds = time.monotonic(), 0
    while rounds < (WARM_UP_ROUNDS if seconds else 1) or time.monotonic() - start < seconds:
        in_turn(readers)
        rounds += 1


def measure(spark: SparkSession, work: Path, tables: int, times: int, warm_up_seconds: float) -> list[Figures]:
    """All questions at one number of tables."""
    figures = []
    with coordinator(work, tables) as uri, Connection(uri) as connection:
        stub: Any = SysCatalogStub(connection.channel)
        session = connected(spark, uri)
        firsts = {name: milliseconds(partial(read_all, stub, request)) for name, request in requests().items()}
        as_local(session, "alone")
        questions = {
            name: {
                "sys_ms": partial(collect, session, sql.format(STATUS)),
                "local_ms": partial(collect, session, sql.format("alone")),
                "server_ms": partial(read_all, stub, requests()[name]),
            }
            for name, sql in QUESTIONS.items()
        }
        for readers in questions.values():
            warm_up(readers, warm_up_seconds)
        for name, readers in questions.items():
            reversed_readers = dict(reversed(readers.items()))
            runs = [in_turn(reversed_readers if number % 2 else readers) for number in range(times)]
            medians = {reader: statistics.median(run[reader] for run in runs) for reader in readers}
            figures.append(Figures(tables, name, **medians, first_ms=firsts[name]))
    return figures


def measure_secured(spark: SparkSession, work: Path, tables: int, times: int, warm_up_seconds: float) -> list[SecuredFigures]:
    """All questions at one number of tables, to a plain coordinator and to a secured one."""
    secured, figures = secured_service(work), []
    for folder in ("plain", "secured"):
        (work / folder).mkdir()
    with coordinator(work / "plain", tables) as plain_uri, coordinator(work / "secured", tables, secured) as secured_uri:
        sessions = {"plain": connected(spark, plain_uri), "secured": connected(spark, secured_uri, secured)}
        with Connection(plain_uri) as plain_connection, Connection(secured_uri, secured.access) as secured_connection:
            stubs: dict[str, Any] = {
                "plain": SysCatalogStub(plain_connection.channel),
                "secured": SysCatalogStub(secured_connection.channel),
            }
            for name, sql in QUESTIONS.items():
                readers: dict[str, Callable[[], object]] = {
                    **{f"sys_{kind}_ms": partial(collect, session, sql.format(STATUS)) for kind, session in sessions.items()},
                    **{f"server_{kind}_ms": partial(read_all, stub, requests()[name]) for kind, stub in stubs.items()},
                }
                warm_up(readers, warm_up_seconds)
                figures.append(SecuredFigures(tables, name, **in_pairs(readers, times, in_turn)))
    return figures


def show_secured(figures: list[SecuredFigures]) -> None:
    table = Table("tables", "question", "sys, plain ms", "secured ms", "overhead", "server, plain ms", "secured ms", "overhead")
    for question in figures:
        by_spark = (f"{question.sys_plain_ms:.1f}", f"{question.sys_secured_ms:.1f}", f"{question.sys_overhead:+.1f} %")
        straight = (f"{question.server_plain_ms:.1f}", f"{question.server_secured_ms:.1f}", f"{question.server_overhead:+.1f} %")
        table.add_row(f"{question.tables:,}", question.question, *by_spark, *straight)
    Console().print(table)
    worst = max(figures, key=lambda question: question.sys_overhead)
    target = verdict(100 + worst.sys_overhead, 100 + TARGET_PERCENT)
    where = f"({worst.question!r} of {worst.tables:,} tables)"
    print(f"at most {worst.sys_overhead:+.1f} % through Spark {where}; the target, {TARGET_PERCENT:.0f} %, is {target}")


def secured_json(figures: list[SecuredFigures]) -> list[dict[str, object]]:
    """Results as printed."""
    return [
        rounded(question) | {"sys_overhead": round(question.sys_overhead, 1), "server_overhead": round(question.server_overhead, 1)}
        for question in figures
    ]


def show(figures: list[Figures], calls: tier_call.CallFigures | None) -> None:
    table = Table("tables", "question", "sys ms", "local ms", "sys / local", "server ms", "server, first")
    for question in figures:
        row = (
            f"{question.sys_ms:.1f}",
            f"{question.local_ms:.1f}",
            f"{question.ratio:.2f}",
            f"{question.server_ms:.1f}",
            f"{question.first_ms:.1f}",
        )
        table.add_row(f"{question.tables:,}", question.question, *row)
    Console().print(table)
    if calls is not None:
        spent = f"p50 {calls.p50_ms:.0f} ms, p95 {calls.p95_ms:.0f} ms; the round in it: p50 {calls.round_p50_ms:.0f} ms"
        print(f"{calls.calls} CALLs of sys.tier_table with {calls.rows:,} new rows each: {spent}")


def loads() -> str:
    """Processes that wanted a core, over 1 and 5 minutes."""
    one_minute, five, _ = os.getloadavg()
    return f"load {one_minute:.1f} and {five:.1f} (1 and 5 min) on {os.cpu_count()} cores"


def rounded(figures: Figures | SecuredFigures | tier_call.CallFigures) -> dict[str, object]:
    """A dataclass's fields as they are printed."""
    return {name: round(value, 2) if isinstance(value, float) else value for name, value in asdict(figures).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, action="append", help="repeat it; default 1, 1,000, 10,000 and 100,000")
    parser.add_argument("--times", type=int, default=61, help="how often each question is asked when warm")
    parser.add_argument("--calls", type=int, default=30, help="how many CALLs are timed; 0: none")
    parser.add_argument("--warm-up", type=float, default=20.0, help="seconds of each question before those that count, at least")
    parser.add_argument("--secured", action="store_true", help="compare a plain coordinator with one behind TLS, tokens and policies")
    parser.add_argument("--work", type=Path, help="folder for data; default: a temporary one")
    arguments = parse(parser, tables=[2], times=3, calls=2, warm_up=0.0)
    builder = SparkSession.builder.master("local[2]").appName("sys_query").config("spark.driver.memory", "6g")
    for key, value in {"spark.ui.enabled": "false", "spark.driver.extraClassPath": str(plugin_jar())}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    before = loads()
    try:
        result, show_result = run_secured(spark, arguments) if arguments.secured else run(spark, arguments)
        loads_then = f"before: {before}; after: {loads()}"
    finally:
        spark.stop()
    finish({"bench": "sys_query", **result}, show_result)
    print(loads_then, file=sys.stderr)


Result = tuple[dict[str, object], Callable[[], None]]
"""Figures, and what shows them."""


def run(spark: SparkSession, arguments: argparse.Namespace) -> Result:
    """Beside a local relation, and the CALLs."""
    figures: list[Figures] = []
    calls: tier_call.CallFigures | None = None
    for tables in arguments.tables or [1, 1_000, 10_000, 100_000]:
        with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
            figures += measure(spark, Path(folder), tables, arguments.times, arguments.warm_up)
    if arguments.calls:
        with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
            calls = tier_call.measure(lambda uri: connected(spark, uri), Path(folder), arguments.calls)
    report: dict[str, object] = {"figures": [rounded(question) for question in figures], "calls": None if calls is None else rounded(calls)}
    return report, lambda: show(figures, calls)


def run_secured(spark: SparkSession, arguments: argparse.Namespace) -> Result:
    """Beside a secured coordinator."""
    figures: list[SecuredFigures] = []
    for tables in arguments.tables or [1, 1_000, 10_000]:
        with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
            figures += measure_secured(spark, Path(folder), tables, arguments.times, arguments.warm_up)
    return {"secured": secured_json(figures)}, lambda: show_secured(figures)


if __name__ == "__main__":
    sys.exit(main())
