"""A Lakeward round of a log table, side by side with its ceiling and with what people do today, in one run.

    .venv/bin/python bench/log_round.py --rows 2000000 --rows 20000000 [--table flights|lineitem] [--lake iceberg|paimon]
        [--layout system-columns --layout clean] [--without-spark]

lakeward    `lakeward up` on this machine, a Spark round on all cores, from the assignment to its end
ceiling     pyarrow reads the same segments and writes the same Parquet, and nothing else (rounds/ceiling.py)
streaming   Spark Structured Streaming `availableNow`, Parquet files into Iceberg   } competitors/log_competitors.py
batch       Spark `INSERT INTO` Iceberg from the same files                        }

Flights are five columns made from a seed, lineitem is TPC-H's sixteen. Also printed: the size of the round's data files, peak memory, and
where the round's time went (round_parts.py). MB are 10^6 bytes, of Arrow data in a rate. Each layout has a ceiling of its own, which writes
the columns that it has in the encodings that the format's readers know. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq
from competitors import log_competitors
from rich.console import Console
from rich.table import Table
from rounds import ceiling, round_parts
from rounds.ceiling import ParquetStyle
from rounds.sources import SOURCES, Source
from running.figures import finish, parse

from tiering.client import LakewardClient
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.lake.layouts import Layout
from tiering.lake.table_options import LAYOUT
from tiering.model.names import table_path
from tiering.model.splits import TieringLogSplit

BUCKETS = 4
CORES = os.cpu_count() or 1
WARM_ROWS = 200_000
HOUR = {"table.datalake.enabled": "true", "table.datalake.freshness": "1 h"}


@dataclass(frozen=True)
class Figures:
    """Result of one size and layout: seconds by contender, MB of data files, peak memory in MiB by process, and the round's parts in
    seconds."""

    style: ParquetStyle
    rows: int
    arrow_mb: float
    lake_mb: float
    seconds: dict[str, float]
    memory_mb: dict[str, float]
    parts: dict[str, float]

    def as_json(self) -> dict[str, object]:
        """With rates and the ratios that matter."""
        ratios = {
            f"lakeward_over_{name}": round(taken / self.seconds["lakeward"], 3)
            for name, taken in self.seconds.items()
            if name != "lakeward"
        }
        return {
            "lake": self.style.lake_format,
            "layout": str(self.style.layout),
            "rows": self.rows,
            "arrow_mb": round(self.arrow_mb, 1),
            "lake_mb": round(self.lake_mb, 2),
            "seconds": {name: round(taken, 3) for name, taken in self.seconds.items()},
            "rows_per_s": {name: round(self.rows / taken) for name, taken in self.seconds.items()},
            **ratios,
            "peak_memory_mb": self.memory_mb,
            "round_parts_s": {name: round(taken, 3) for name, taken in self.parts.items()},
        }


@dataclass(frozen=True)
class Service:
    """A running `lakeward up`."""

    uri: str
    pid: int
    data: Path


@contextmanager
def service(folder: Path) -> Iterator[Service]:
    """With every round on Spark."""
    command = [sys.executable, "-m", "tiering.cli.main", "up", "--data", str(folder), "--port", "0", "--inline-round-bytes", "0"]
    command += ["--master", f"local[{CORES}]", "--log-level", "debug"]
    with folder.with_suffix(".log").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("lakeward is ready: "))
        yield Service(line.split(": ")[1].strip(), process.pid, folder)
    finally:
        process.terminate()
        process.wait(30)


def load(uri: str, source: Source, name: str, rows: int, scratch: Path, style: ParquetStyle) -> tuple[int, float]:
    """Fills a table; its rows, and MB of Arrow data."""
    path = table_path("bench", name)
    options = {**HOUR, "table.datalake.format": style.lake_format, LAYOUT.name: str(style.layout)}
    loaded = size = 0
    with RemoteEmbeddedCluster(uri) as cluster:
        cluster.create_database("bench", ignore_if_exists=True)
        cluster.create_table(path, TableSpec(source.schema, BUCKETS, properties=options))
        writer = LogWriter(cluster, path, f"bench-{name}")
        for batch in source.batches(rows, scratch):
            loaded, size = loaded + batch.num_rows, size + batch.nbytes
            writer.append(batch)
    return loaded, size / 1e6


def run_round(uri: str, name: str, rows: int) -> float:
    """Seconds of the round that a CALL makes, as the coordinator saw it. A benchmark of a wrong answer is worth nothing: all rows
    have to be in the lake."""
    path = table_path("bench", name)
    with LakewardClient(uri) as client:
        result = client.tier_table(path, timeout_ms=1_800_000)
        [status] = client.list_tiering_statuses(table_path=path)
    if (result.state, status.lake_records) != ("SUCCEEDED", rows) or status.last_round_duration_ms is None:
        raise SystemExit(f"the round of {path} ended as {result.state} with {status.lake_records} of {rows} rows in the lake")
    return status.last_round_duration_ms / 1_000


def ceiling_jobs(cluster: RemoteEmbeddedCluster, name: str, target: Path, style: ParquetStyle) -> list[ceiling.BucketJob]:
    """The very segments that the round read."""
    target.mkdir(parents=True)
    path = table_path("bench", name)
    table = cluster.table(path)
    jobs = []
    for bucket, log in cluster.offsets(table).items():
        reader = cluster.reader(table, TieringLogSplit(path, bucket, None, log.log_start, log.log_end, log.log_end))
        segments = tuple(str(Path(reader.root) / segment.path) for segment in reader.segments)
        jobs.append(ceiling.BucketJob(bucket.bucket_id, segments, str(target / f"{bucket.bucket_id}.parquet"), style))
    return jobs


def measure(source: Source, rows: int, style: ParquetStyle, work: Path, times: int) -> Figures:
    """Medians of `times` rounds, each followed by its ceiling on the same rows."""
    rounds: list[float] = []
    ceilings: list[float] = []
    parts: list[dict[str, float]] = []
    work.mkdir()
    with service(work / "data") as running, RemoteEmbeddedCluster(running.uri) as cluster:
        warm_rows, _ = load(running.uri, source, "warm", min(WARM_ROWS, rows), work.parent, style)
        run_round(running.uri, "warm", warm_rows)
        for number in range(times):
            name = f"rows{number}"
            rows, arrow_mb = load(running.uri, source, name, rows, work.parent, style)
            since = time.time()
            rounds.append(run_round(running.uri, name, rows))
            steps = round_parts.step_seconds(running.data / "logs" / "tierer.log", since)
            read, whole = round_parts.work_seconds(cluster, table_path("bench", name), work / f"alone{number}")
            parts.append(parts_of(rounds[-1], steps, read, whole))
            taken, copied = ceiling.measure(ceiling_jobs(cluster, name, work / f"ceiling{number}", style), CORES)
            if copied != rows:
                raise SystemExit(f"the ceiling copied {copied} of {rows} rows")
            ceilings.append(taken)
        memory = round_parts.peak_memory_mb(running.pid)
        lake_mb = data_bytes(work / "data" / "lake", name) / 1e6
    shutil.rmtree(work)
    seconds = {"lakeward": statistics.median(rounds), "ceiling": statistics.median(ceilings)}
    medians = {part: statistics.median(of_round[part] for of_round in parts) for part in parts[0]}
    return Figures(style, rows, arrow_mb, lake_mb, seconds, memory, medians)


def data_bytes(lake: Path, name: str) -> int:
    """Returns the bytes of the data files of a table, whose folder begins with its name."""
    files = (file for file in lake.rglob("*.parquet") if any(part.startswith(name) for part in file.relative_to(lake).parts))
    return sum(file.stat().st_size for file in files)


def measure_competitors(source: Source, rows: int, work: Path) -> dict[str, float]:
    """Seconds of Spark's own ways into the lake."""
    source.write_files(work / "source", rows, work)
    source.write_files(work / "warm-source", min(WARM_ROWS, rows), work)
    seconds = log_competitors.measure(work / "source", work / "warm-source", work, CORES)
    for name in ("streaming", "batch"):
        written = sum(pq.read_metadata(path).num_rows for path in (work / "warehouse" / "bench" / name).rglob("*.parquet"))
        if written != rows:
            raise SystemExit(f"{name} wrote {written} of {rows} rows")
    return seconds


def parts_of(total: float, steps: dict[str, float], read: float, whole: float) -> dict[str, float]:
    """Wall seconds of the round by part."""
    parts = round_parts.parts_of_work(steps.get("RunSplits", 0.0), read, whole, CORES)
    parts["commit"] = sum(steps.get(name, 0.0) for name in round_parts.COMMIT_STEPS)
    return {**parts, "other": round_parts.rest_of(total, parts)}


def show(name: str, sizes: list[Figures]) -> None:
    """Prints a row for each size and contender, then memory and parts by size."""
    columns = ("rows", "layout", "contender", "seconds", "rows/s", "MB/s", "of ceiling")
    lake_format = sizes[0].style.lake_format
    table = Table(*columns, title=f"Log round of {name} to {lake_format}, {BUCKETS} buckets, {CORES} cores")
    for figures in sizes:
        for contender, taken in figures.seconds.items():
            share, rate = figures.seconds["ceiling"] / taken, figures.rows / taken
            cells = (f"{taken:.2f}", f"{rate:,.0f}", f"{figures.arrow_mb / taken:.0f}", f"{share:.2f}")
            table.add_row(f"{figures.rows:,}", figures.style.layout, contender, *cells)
    console = Console(width=100)
    console.print(table)
    for figures in sizes:
        parts = ", ".join(f"{part} {taken:.2f}" for part, taken in figures.parts.items())
        peaks = ", ".join(f"{process} {peak:.0f}" for process, peak in figures.memory_mb.items())
        files = f"{figures.lake_mb:.1f} MB of data files, {1e6 * figures.lake_mb / figures.rows:.2f} bytes a row"
        console.print(
            f"{figures.rows:,} rows, {figures.style.layout}: {files}; seconds by part: {parts}; peak MiB: {peaks}", highlight=False
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, action="append", help="repeat it for several sizes; default 2,000,000")
    parser.add_argument("--table", choices=sorted(SOURCES), default="flights")
    parser.add_argument("--work", type=Path, help="folder for data; default: a temporary one")
    parser.add_argument("--times", type=int, default=3, help="rounds of each size; their median counts")
    parser.add_argument("--lake", choices=("iceberg", "paimon"), default="iceberg")
    parser.add_argument("--layout", type=Layout, action="append", help="system-columns (default) or clean; repeat it for both side by side")
    parser.add_argument("--without-spark", action="store_true", help="leave streaming and batch out")
    arguments = parse(parser, rows=[20_000], times=1)
    source, sizes = SOURCES[arguments.table], []
    styles = [ParquetStyle(arguments.lake, layout) for layout in arguments.layout or [Layout.SYSTEM_COLUMNS]]
    for rows in arguments.rows or [2_000_000]:
        with tempfile.TemporaryDirectory(dir=arguments.work) as name:
            folder = Path(name)
            measured = [measure(source, rows, style, folder / style.layout, arguments.times) for style in styles]
            others = {} if arguments.without_spark else measure_competitors(source, measured[0].rows, folder)
            sizes += [replace(figures, seconds={**figures.seconds, **others}) for figures in measured]
    report = {"bench": "log_round", "table": arguments.table, "cores": CORES, "buckets": BUCKETS}
    finish({**report, "sizes": [figures.as_json() for figures in sizes]}, lambda: show(arguments.table, sizes))


if __name__ == "__main__":
    main()
