"""The proof that the lake equals the log, beside DuckDB's own time to count and checksum the two sides, in one run.

    .venv/bin/python bench/validate.py --rows 20000000 --keys 5000000 [--table flights|lineitem]

counts, offsets, rows   what `lakeward validate` does at this level: a child process, from its start to its end
own                     DuckDB alone, the plainest queries over the same files and segments, in a fresh process (validation/own_queries.py)
own, folded             of a primary-key table: the log's newest change of each key instead of all its changes

All on two cores, whatever the machine has, and DuckDB within --memory-limit. A primary-key table has had a second round: 10 % of
its keys were changed, 1 % deleted. Each way is measured twice, the faster time counts. Memory is the peak of the process: the limit is
DuckDB's; Python, its libraries and a batch of the log come on top. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rounds.sources import SOURCES
from running.figures import finish, parse
from validation import own_queries
from validation.tables import BUCKETS, World, log_table, primary_key_table

from tiering.cluster.registry import EMBEDDED
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import TableInfo, TableType
from tiering.procedures.validate_table import CheckResult
from tiering.validate.child import ClusterValidation
from tiering.validate.results import DEFAULT_MEMORY_LIMIT, Level

CORES = 2
LOOK_EVERY_S = 0.02
"""At the child's peak memory and CPU time: what it takes in its last moment is missed."""
TIMES = 2
OWN, FOLDED = "own", "own, folded"


@dataclass
class Figures:
    """Result of one table: seconds, CPU seconds and peak MiB by way, and the seconds of each check of level rows."""

    kind: str
    rows: int
    load: float
    seconds: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    peak_mb: dict[str, float] = field(default_factory=dict)
    checks: dict[str, float] = field(default_factory=dict)

    def add(self, method: str, seconds: float, cpu: float, peak_mb: float, results: Sequence[CheckResult] = ()) -> None:
        """The faster one, if it was measured before."""
        if seconds >= self.seconds.get(method, seconds + 1):
            return
        self.seconds[method], self.cpu[method], self.peak_mb[method] = seconds, cpu, peak_mb
        if results:
            self.checks = {}
        for result in results:
            self.checks[result.check] = self.checks.get(result.check, 0.0) + result.duration_ms / 1_000

    def as_json(self) -> dict[str, object]:
        """With level rows in the own times of DuckDB."""
        several = ("seconds", "cpu", "peak_mb", "checks")
        rounded = {name: {key: round(value, 2) for key, value in getattr(self, name).items()} for name in several}
        ratios = {
            f"rows_over_{method}": round(self.seconds[Level.ROWS] / self.seconds[method], 2)
            for method in (OWN, FOLDED)
            if method in self.seconds
        }
        alone = round(sum(self.checks.values()) / self.seconds[OWN], 2)
        return {**vars(self), **rounded, "load": round(self.load, 2), **ratios, "checks_over_own": alone}


class Watch:
    """Looks at a process until it ends."""

    def __init__(self) -> None:
        self.peak_mb = self.cpu = 0.0
        self._thread: threading.Thread | None = None

    def start(self, process: subprocess.Popen[str]) -> None:
        self._thread = threading.Thread(target=self._look, args=(process,))
        self._thread.start()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _look(self, process: subprocess.Popen[str]) -> None:
        while process.returncode is None:  # the parent process waits for it
            self.peak_mb = max(self.peak_mb, own_queries.peak_mb(str(process.pid)))
            self.cpu = max(self.cpu, own_queries.cpu_seconds(process.pid))
            time.sleep(LOOK_EVERY_S)


def measure_level(world: World, table: TableInfo, level: Level, memory_limit: str, figures: Figures) -> None:
    """One validation; every check must pass."""
    watch = Watch()
    validation = ClusterValidation(EMBEDDED, world.folder / "cluster", "iceberg", world.lake_properties, memory_limit)
    start = time.perf_counter()
    results = list(validation.run(table.path, level, started=watch.start))
    taken = time.perf_counter() - start
    watch.join()
    if wrong := [result for result in results if not result.ok]:
        raise SystemExit(f"the validation did not pass: {wrong[0]}")
    figures.add(level.value, taken, watch.cpu, watch.peak_mb, results if level is Level.ROWS else ())


def own_job(world: World, table: TableInfo, memory_limit: str) -> own_queries.OwnJob:
    """The very files that the validation reads."""
    view = world.lake.view(table.path)
    assert view is not None
    files = world.lake.file_lists(view, None)
    segments: list[str] = []
    for bucket, log in world.storage.offsets(table).items():
        reader = world.storage.reader(table, TieringLogSplit(table.path, bucket, None, log.log_start, log.log_end, log.log_end))
        segments += [str(Path(reader.root) / segment.path) for segment in reader.segments]  # type: ignore[union-attr]
    data, deletes = (tuple(file.path for file in listed) for listed in (files.data, files.position_deletes))
    return own_queries.OwnJob(data, deletes, tuple(segments), tuple(table.schema.names), table.primary_key, memory_limit, CORES)


def measure_own(world: World, table: TableInfo, memory_limit: str, figures: Figures) -> None:
    """In a fresh process; both sides must hold the very same rows."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        own = pool.submit(own_queries.run, own_job(world, table, memory_limit)).result()
    changes = sum(log.log_end - log.log_start for log in world.storage.offsets(table).values())
    if own.lake != own.folded or own.lake[0] != figures.rows or own.log[0] != changes:
        raise SystemExit(f"DuckDB's own found {own.lake} in the lake, {own.log} and {own.folded} in the log, of {figures.rows} rows")
    figures.add(OWN, own.seconds, own.cpu, own.peak_mb)
    if table.primary_key:
        figures.add(FOLDED, own.fold_seconds, own.fold_cpu, own.peak_mb)


def measure(world: World, table: TableInfo, rows: int, memory_limit: str, times: int) -> Figures:
    """Everything, one after the other, and all of it again."""
    figures = Figures("log" if table.table_type is TableType.LOG else "primary-key", rows, os.getloadavg()[0])
    for _ in range(times):
        measure_own(world, table, memory_limit, figures)
        for level in Level:
            measure_level(world, table, level, memory_limit, figures)
    return figures


def show(figures: list[Figures], memory_limit: str) -> None:
    """A row a table and way."""
    title = f"Validation within {memory_limit}, {BUCKETS} buckets, {CORES} cores"
    table = Table("table", "rows", "way", "seconds", "own x", "CPU s", "peak MiB", title=title)
    for figure in figures:
        for method, taken in figure.seconds.items():
            times, cpu, peak = f"{taken / figure.seconds[OWN]:.2f}", f"{figure.cpu[method]:.2f}", f"{figure.peak_mb[method]:.0f}"
            table.add_row(figure.kind, f"{figure.rows:,}", method, f"{taken:.2f}", times, cpu, peak)
    console = Console(width=100)
    console.print(table)
    for figure in figures:
        parts = ", ".join(f"{name} {taken:.2f}" for name, taken in figure.checks.items() if taken)
        alone = sum(figure.checks.values())
        console.print(f"{figure.kind}, level rows: {parts}: {alone:.2f} s, {alone / figure.seconds[OWN]:.2f} x own", highlight=False)
        console.print("  without the start of the process; the load before was " + f"{figure.load:.1f}", highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="of the log table; default 20,000,000 if no --keys is given")
    parser.add_argument("--keys", type=int, help="of the primary-key table; without it there is none")
    parser.add_argument("--table", choices=sorted(SOURCES), default="flights", help="rows of the log table")
    parser.add_argument("--memory-limit", default=DEFAULT_MEMORY_LIMIT)
    parser.add_argument("--work", type=Path, help="folder for data; default: a temporary one")
    parser.add_argument("--times", type=int, default=TIMES, help="how often each way is measured; the faster time counts")
    arguments = parse(parser, rows=20_000, keys=5_000, times=1)
    if not arguments.rows and not arguments.keys:
        arguments.rows = 20_000_000
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each child would compile us anew, which an installed package never does
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    figures = []
    for kind, rows in (("log", arguments.rows), ("primary_key", arguments.keys)):
        if not rows:
            continue
        with tempfile.TemporaryDirectory(dir=arguments.work) as name:
            scratch = Path(name)
            world = World(scratch / "data")
            table = log_table(world, SOURCES[arguments.table], rows, scratch) if kind == "log" else primary_key_table(world, rows, scratch)
            figures.append(measure(world, *table, arguments.memory_limit, arguments.times))
            world.close()
    tables = [figure.as_json() for figure in figures]
    report = {"bench": "validate", "cores": CORES, "memory_limit": arguments.memory_limit, "tables": tables}
    finish(report, lambda: show(figures, arguments.memory_limit))


if __name__ == "__main__":
    main()
