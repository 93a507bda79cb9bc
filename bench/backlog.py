"""Catching up beside live tables: with backlog rounds, without them, and alone.

    .venv/bin/python bench/backlog.py [--rows 20000000] [--live 10] [--freshness 20] [--slots 4]

Each time a fresh `lakeward up`, and a table with so many rows of which the lake is enabled once they are there. `--live` tables get a row
batch each second, before, meanwhile and for a minute afterwards. Measured: the seconds until the lake has the backlog, as
`is_backlog` says, and the age of the oldest row that the lake of a live table lacks (`lag_ms`), twice a second of each table.

alone       no live tables
backlog     rounds of a backlog take long and leave a slot to the others: what Lakeward does by default
plain       `--backlog-duration-factor 1`: all rounds are alike

Goals: catching up takes at most 1.2 times as long as alone, and the 95th percentile of the age stays within the freshness. The last line is
one JSON object.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import idle
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from running.figures import finish, parse

from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.rpc.v1.sys_catalog_pb2_grpc import SysCatalogStub
from tiering.client import LakewardClient
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TablePath
from tiering.rpc.v1 import common_pb2
from tiering.rpc.v1.common_pb2 import Literal
from tiering.wire.channel import Connection

BIG = TablePath("bench", "backlog")
BUCKETS = 4
BATCH_ROWS = 200_000
LIVE_ROWS = 200
SAMPLE_SECONDS = 0.5
CAUGHT_UP_SECONDS = 0.05
"""Between two looks whether the lake has the backlog: catching up takes some two seconds."""
SETTLE_ROUNDS = 3
"""Freshnesses until live tables have a rhythm."""
SLOWDOWN_GOAL = 1.2
RUNS = {"alone": 10, "backlog": 10, "plain": 1}
"""`--backlog-duration-factor` by run."""


PARTS = ("waited_for_slot_ms", "plan_ms", "read_ms", "write_ms", "commit_ms", "ack_ms", "duration_ms", "records_written")


@dataclass(frozen=True)
class Figures:
    """Result of one run: seconds, and the 95th percentile of the live tables' ages in milliseconds; None = there were none. `rounds`: the
    rounds of the big table in order, with their durations.

    `rounds`: those of the big table, first to last, with what they took.
    """

    catch_up_s: float
    meanwhile_p95_ms: int | None
    afterwards_p95_ms: int | None
    misses: int
    rounds: list[dict[str, int | None]]


@dataclass(frozen=True)
class Sizes:
    """Options of the command line."""

    rows: int
    live: int
    freshness_s: int
    slots: int
    afterwards_s: int


class LiveTables:
    """Tables that get rows each second, in a thread, and how old their lakes were."""

    def __init__(self, uri: str, number: int, freshness_s: int) -> None:
        self._uri, self._freshness_s = uri, freshness_s
        self._paths = [TablePath("bench", f"live{index}") for index in range(number)]
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._write, self._watch)]
        self._ages: list[tuple[float, int]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Rows come while the block runs."""
        properties = {"table.datalake.enabled": "true", "table.datalake.freshness": f"{self._freshness_s} s"}
        with RemoteEmbeddedCluster(self._uri) as cluster:
            for path in self._paths:
                cluster.create_table(path, TableSpec(idle.SCHEMA, 1, properties=properties))
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in self._threads:
                thread.join()

    def p95_ms(self, start: float, end: float) -> int | None:
        """Returns the 95th percentile of the ages between two readings of the monotonic clock."""
        ages = sorted(age for taken, age in self._ages if start <= taken <= end)
        return ages[-(-len(ages) * 95 // 100) - 1] if ages else None

    def _write(self) -> None:
        with RemoteEmbeddedCluster(self._uri) as cluster:
            writers = [LogWriter(cluster, path, "live") for path in self._paths]
            begun = time.monotonic()
            for second in range(86_400):
                for writer in writers:
                    writer.append(rows(second * LIVE_ROWS, LIVE_ROWS))
                if self._stopping.wait(max(0.0, begun + second + 1 - time.monotonic())):
                    return

    def _watch(self) -> None:
        wanted = set(self._paths)
        with LakewardClient(self._uri) as client:
            while not self._stopping.wait(SAMPLE_SECONDS):
                taken = time.monotonic()
                for status in client.list_tiering_statuses():
                    if TablePath(status.database_name, status.table_name) in wanted and status.lag_ms is not None:
                        self._ages.append((taken, status.lag_ms))


def rows(start: int, count: int) -> pa.Table:
    ids = pa.array(range(start, start + count), pa.int64())
    return pa.table({"id": ids, "text": pa.array([f"row {number}" for number in range(start, start + count)])}, schema=idle.SCHEMA)


def load(cluster: RemoteEmbeddedCluster, number: int) -> None:
    """A table with so many rows that is not tiered yet."""
    cluster.create_table(BIG, TableSpec(idle.SCHEMA, BUCKETS))
    writer = LogWriter(cluster, BIG, "load")
    batch = rows(0, min(BATCH_ROWS, number))
    for start in range(0, number, BATCH_ROWS):
        writer.append(batch.slice(0, min(BATCH_ROWS, number - start)))


def catch_up(uri: str, cluster: RemoteEmbeddedCluster, freshness_s: int) -> float:
    """Enables the table's lake, and waits until it has the backlog: seconds."""
    cluster.alter_table(BIG, {"table.datalake.enabled": "true", "table.datalake.freshness": f"{freshness_s} s"})
    begun = time.monotonic()
    with LakewardClient(uri) as client:
        while not any(status.is_backlog is False for status in client.list_tiering_statuses(BIG)):
            time.sleep(CAUGHT_UP_SECONDS)
    return time.monotonic() - begun


def rounds_of_big(uri: str) -> list[dict[str, int | None]]:
    """Durations of the rounds of the big table, first to last."""
    request = pb.ReadTableRequest(namespace="sys", name="tiering_rounds", columns=["round_id", "pending_time", *PARTS])
    request.filters.append(common_pb2.Filter(column="table_name", operator=common_pb2.Filter.EQUAL, values=[Literal(text=BIG.table_name)]))
    with Connection(uri) as connection:
        stub = SysCatalogStub(connection.channel)
        pieces = b"".join(response.arrow for response in stub.ReadTable(request))
    all_rounds = pa.ipc.open_stream(pieces).read_all().sort_by("pending_time")
    return all_rounds.select(list(PARTS)).to_pylist()


def run(name: str, sizes: Sizes) -> Figures:
    """One run on a fresh data folder."""
    with tempfile.TemporaryDirectory(prefix="lakeward-backlog-") as folder:
        log = Path(folder) / "up.out"
        options = ("--data", f"{folder}/data", "--port", "0", "--slots", str(sizes.slots), "--log-level", "warning")
        with idle.process("up", *options, "--backlog-duration-factor", str(RUNS[name]), log=log):
            uri = idle.wait_for_line(log, "lakeward is ready: ").split(": ")[1].strip()
            return _measure(uri, sizes, sizes.live if name != "alone" else 0)


def _measure(uri: str, sizes: Sizes, number: int) -> Figures:
    with RemoteEmbeddedCluster(uri) as cluster:
        cluster.create_database("bench")
        load(cluster, sizes.rows)
        live = LiveTables(uri, number, sizes.freshness_s)
        with live.running():
            time.sleep(SETTLE_ROUNDS * sizes.freshness_s)
            begun = time.monotonic()
            taken = catch_up(uri, cluster, sizes.freshness_s)
            ended = time.monotonic()
            if number:
                time.sleep(sizes.afterwards_s)
        meanwhile, afterwards = live.p95_ms(begun, ended), live.p95_ms(ended, time.monotonic())
        return Figures(taken, meanwhile, afterwards, _misses(meanwhile, afterwards, sizes), rounds_of_big(uri))


def _misses(meanwhile: int | None, afterwards: int | None, sizes: Sizes) -> int:
    """How many of the two are beyond the promise."""
    return sum(1 for age in (meanwhile, afterwards) if age is not None and age > sizes.freshness_s * 1_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--live", type=int, default=10)
    parser.add_argument("--freshness", type=int, default=20, help="seconds, of all tables")
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--afterwards", type=int, default=60, help="seconds")
    parser.add_argument("--run", choices=RUNS, action="append", help="repeat it; default: all. Ratios need `alone`")
    options = parse(parser, rows=20_000, live=1, freshness=3, slots=2, afterwards=2, run=["alone", "backlog"])
    sizes = Sizes(options.rows, options.live, options.freshness, options.slots, options.afterwards)
    figures = {name: run(name, sizes) for name in RUNS if name in (options.run or RUNS)}
    slowdown = figures["backlog"].catch_up_s / figures["alone"].catch_up_s
    result = {
        "bench": "backlog",
        "rows": sizes.rows,
        "live_tables": sizes.live,
        "freshness_ms": sizes.freshness_s * 1_000,
        "slots": sizes.slots,
        "runs": {name: {key: value for key, value in vars(of_run).items() if key != "misses"} for name, of_run in figures.items()},
        "slowdown": round(slowdown, 3),
        "within_goals": slowdown <= SLOWDOWN_GOAL and figures["backlog"].misses == 0,
    }
    finish(result, lambda: show(figures))


def show(figures: dict[str, Figures]) -> None:
    """A row a run, and what each round of the big table took."""
    shown = Table("run", "catching up, s", "of alone", "age p95 meanwhile, ms", "age p95 afterwards, ms")
    for name, each_run in figures.items():
        ratio = each_run.catch_up_s / figures["alone"].catch_up_s
        shown.add_row(
            name, f"{each_run.catch_up_s:.1f}", f"{ratio:.2f}", str(each_run.meanwhile_p95_ms or ""), str(each_run.afterwards_p95_ms or "")
        )
    Console().print(shown)
    for name, each_run in figures.items():
        for taken in each_run.rounds:
            print(f"{name}: " + ", ".join(f"{part} {value:,}" for part, value in taken.items() if value is not None))


if __name__ == "__main__":
    main()
