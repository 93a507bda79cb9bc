"""The highest rate of rows that a lake table keeps up with, its upkeep included, beside Spark Structured Streaming.

    .venv/bin/python bench/sustained.py [--minutes 15] [--search-minutes 2] [--rates 25000 50000] [--systems lakeward spark]

A process writes rows of five columns at a constant rate into one table beside `--tables` small ones, each of which gets ten rows every
5 s. A table's lag is the time since its oldest row was due that is not in the lake yet; it counts four times a second, but for the first
30 s. A rate holds if the p99 of the lag stays below `--limit` and every row is in the lake in the end.

lakeward     a real Fluss cluster, `lakeward up` and its Spark, all tables with the same freshness; 4 buckets. Its upkeep runs as it will
spark        a stream of Parquet files into Iceberg for each table, and Iceberg's own rewrite_data_files, rewrite_manifests and
             expire_snapshots every minute in the same session. There is no Fluss beside it
spark alone  the same without the small tables

Rates are tried upwards for `--search-minutes` each, up to the first that does not hold, and then downwards for `--minutes`, until one
holds. Writer, cluster and services share this machine's cores. Prints a table of all steps; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import running.tests_path  # noqa: F401  # what is imported next needs it
from rich.console import Console
from rich.table import Table
from running.figures import finish, parse, rounded, shown
from steady.lag import Step, highest_rate
from steady.on_lakeward import lakeward
from steady.on_spark import SparkSettings, spark_streaming

CORES = os.cpu_count() or 1
LAKEWARD, SPARK, SPARK_ALONE = "lakeward", "spark", "spark-alone"
RATES = (10_000, 25_000, 50_000, 100_000, 200_000, 400_000, 800_000)


class System(Protocol):
    """Something that moves rows into a lake."""

    def step(self, rate: float, seconds: float) -> Step: ...


@dataclass(frozen=True)
class Result:
    """Result of one system: the step with the highest rate that holds, and all steps."""

    best: Step | None
    steps: list[Step]


def systems(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Callable[[], AbstractContextManager[System]]]]:
    """The systems that the command line names."""
    settings = SparkSettings(CORES, arguments.freshness / 2, arguments.compaction_seconds)
    known: Mapping[str, Callable[[], AbstractContextManager[System]]] = {
        LAKEWARD: lambda: lakeward(folder / LAKEWARD, arguments.tables, arguments.freshness, arguments.slots),
        SPARK: lambda: spark_streaming(folder / SPARK, arguments.tables, settings),
        SPARK_ALONE: lambda: spark_streaming(folder / SPARK_ALONE, 0, settings),
    }
    for name in arguments.systems:
        yield name, known[name]


def measure(name: str, opened: Callable[[], AbstractContextManager[System]], arguments: argparse.Namespace) -> Result:
    with opened() as system:

        def try_rate(rate: float, seconds: float) -> Step:
            step = system.step(rate, seconds)
            figures = f"p99 {step.p99_s:.1f} s, writer {step.behind_s:.1f} s behind"
            print(f"{name}: {rate:,.0f} rows/s for {seconds:.0f} s: {figures}", file=sys.stderr)
            return step

        return Result(*highest_rate(arguments.rates, try_rate, arguments.limit, arguments.search_minutes * 60, arguments.minutes * 60))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15.0, help="for which the highest rate has to hold")
    parser.add_argument("--search-minutes", type=float, default=2.0, help="for which each rate is tried before")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES, help="rows a second")
    parser.add_argument("--tables", type=int, default=100, help="small ones")
    parser.add_argument("--freshness", type=float, default=10.0, help="seconds")
    parser.add_argument("--slots", type=int, default=16, help="of Lakeward's tierer: a round of a small table waits more than it works")
    parser.add_argument("--limit", type=float, default=12.0, help="seconds, of the lag's p99")
    parser.add_argument("--compaction-seconds", type=float, default=60.0, help="between two compactions of all tables by Spark")
    parser.add_argument("--systems", nargs="+", choices=(LAKEWARD, SPARK, SPARK_ALONE), default=(LAKEWARD, SPARK, SPARK_ALONE))
    parser.add_argument("--work", type=Path, help="folder for data; default: a temporary one")
    sizes = {"minutes": 0.3, "search_minutes": 0.2, "rates": (500.0,), "tables": 2, "freshness": 2.0, "limit": 60.0}
    arguments = parse(parser, **sizes, compaction_seconds=3.0, systems=(LAKEWARD, SPARK))
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        results = {name: measure(name, opened, arguments) for name, opened in systems(arguments, Path(folder))}
    settings = {"cores": CORES, "tables": arguments.tables, "freshness_s": arguments.freshness, "limit_s": arguments.limit}
    figures = {name: as_json(result, arguments.limit) for name, result in results.items()}
    finish({"bench": "sustained", **settings, "load": os.getloadavg()[0], "systems": figures}, lambda: show(results, arguments))


def as_json(result: Result, limit_s: float) -> dict[str, object]:
    """The figures of one system."""
    steps = [{**{name: _plain(value) for name, value in asdict(step).items()}, "holds": step.holds(limit_s)} for step in result.steps]
    return {"highest_rate": None if result.best is None else result.best.rate, "steps": steps}


def _plain(value: float | bool | None) -> float | bool | None:
    return value if isinstance(value, bool) else rounded(value)


def show(results: Mapping[str, Result], arguments: argparse.Namespace) -> None:
    """Prints all steps, and the highest rate of each system."""
    title = f"freshness {arguments.freshness:g} s, beside {arguments.tables} small tables, {CORES} cores"
    table = Table("system", "rows/s", "seconds", "p50 s", "p99 s", "max s", "small p99 s", "writer behind s", "files", "holds", title=title)
    for name, result in results.items():
        for step in result.steps:
            ages = (shown(value) for value in (step.p50_s, step.p99_s, step.max_s, step.small_p99_s, step.behind_s))
            verdict = "yes" if step.holds(arguments.limit) else "no"
            table.add_row(name, f"{step.rate:,.0f}", f"{step.seconds:,.0f}", *ages, shown(step.files, 0), verdict)
    Console(width=130).print(table)
    for name, result in results.items():
        best = "no rate" if result.best is None else f"{result.best.rate:,.0f} rows/s"
        print(f"{name}: {best} with a p99 of the lag below {arguments.limit:g} s for {arguments.minutes:g} min")


if __name__ == "__main__":
    main()
