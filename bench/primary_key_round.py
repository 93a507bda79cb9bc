"""A round of a primary-key table, side by side with MERGE and with its floor, in one run: the lake layer alone, without a cluster.

    .venv/bin/uv pip install --target build/bench --group bench
    PYTHONPATH=build/bench .venv/bin/python bench/primary_key_round.py --rows 1000000 --rows 10000000 [--share 0.01] [--buckets 4]

The first line puts deltalake beside the environment, which stays as requirements.lock has it.

lakeward    changelogs by bucket -> writers in as many warm processes as cores -> one fenced commit
floor       the same processes read the key column of the lake's files once and write the changed rows, and nothing else
merge       Spark MERGE INTO Iceberg, merge-on-read, warm, of the last changes (the fold is given to it)
delta       deltalake's merge, likewise; left out, and said so, if deltalake is not installed

Also printed: the peak memory of a worker, and of Spark's JVM. `--buckets 1` makes one task of it all: 10,000,000 keys are to stay below
1.5 GB. Half of the changelog's records are `-U`. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
from competitors import primary_key_competitors
from rich.console import Console
from rich.table import Table
from rounds.primary_key_source import PrimaryKeySource, Round, primary_key_table

from tiering.lake.base import Committable, LakeTieringFactory, WriterInitContext
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.iceberg.primary_key.bucket_files import decode_bucket_files
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.registry import local_lake_properties
from tiering.model.tables import TableInfo

CORES = os.cpu_count() or 1
WARM_ROWS = 20_000


@dataclass(frozen=True)
class BucketTask:
    """One bucket's work in a round; pickled to a worker process."""

    factory: LakeTieringFactory
    context: WriterInitContext
    log: str
    starting_offset: int
    reached_offset: int


def run_bucket(task: BucketTask) -> tuple[bytes, float]:
    """One bucket's task, as an executor does it; the write result, and the peak memory in MiB."""
    primary_key_competitors.forget_peak()
    writer = task.factory.create_writer(task.context)
    with pa.OSFile(task.log) as source:
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            writer.write(reader.get_batch(number))
    result = writer.complete(task.starting_offset, task.reached_offset)
    return task.factory.serialize_write_result(result), primary_key_competitors.peak_mb()


class Lakeward:
    """One lake, and rounds of it."""

    def __init__(self, folder: Path, pool: ProcessPoolExecutor, table: TableInfo) -> None:
        folder.mkdir()
        self._table = table
        self.lake = IcebergLake(local_lake_properties(folder))
        self._pool = pool
        self._rounds = 0

    def tier(self, changes: Round, source: PrimaryKeySource) -> tuple[float, float, dict[str, str]]:
        """Seconds, peak MiB of a worker, and the snapshot's summary."""
        self._rounds += 1
        round_id = f"r{self._rounds}"
        start = time.perf_counter()
        view = self.lake.ensure_table(self._table)
        before = {} if view.marker is None else view.marker.buckets
        bases = self.lake.bucket_files(self._table, view, dict.fromkeys(changes.logs))
        factory = self.lake.tiering_factory(self._table)
        tasks = [
            BucketTask(
                factory,
                WriterInitContext(self._table, view.table_uuid, key, None, round_id, f"n{key}", bases.get(key, b"")),
                str(log),
                before[key].tiered if key in before else 0,
                source.offsets[key.bucket_id],
            )
            for key, log in changes.logs.items()
        ]
        done = list(self._pool.map(run_bucket, tasks))
        committer = factory.create_committer()
        results = [factory.deserialize_write_result(data) for data, _ in done]
        after = {result.bucket: TieredRange(0, result.reached_offset) for result in results}
        base_round = None if view.marker is None else view.marker.round_id
        marker = Marker("bench", self._table.table_id, view.table_uuid, round_id, 1, base_round, after)
        committer.commit(Committable(round_id, tuple(results)), view, marker)
        taken = time.perf_counter() - start
        left = self.lake.view(self._table.path)
        if left is None or left.records != changes.rows_after:
            raise SystemExit(f"the round left {left and left.records} of {changes.rows_after} rows")
        handle: Any = left.handle
        return taken, max(peak for _, peak in done), handle.current_snapshot().summary.additional_properties

    def floor(self, changes: Round, folder: Path) -> float:
        """Seconds; to be measured before the round, on the files that it finds."""
        view = self.lake.ensure_table(self._table)
        bases = self.lake.bucket_files(self._table, view, dict.fromkeys(changes.logs))
        jobs = [
            primary_key_competitors.FloorJob(
                tuple(file.location.removeprefix("file://") for file in decode_bucket_files(bases[key]).data),
                str(log),
                str(folder / f"{key}.parquet"),
            )
            for key, log in changes.logs.items()
        ]
        start = time.perf_counter()
        list(self._pool.map(primary_key_competitors.floor, jobs))
        return time.perf_counter() - start


@dataclass
class Figures:
    """Of one round."""

    rows: int
    share: float
    changes: int
    seconds: dict[str, float] = field(default_factory=dict)
    peak_mb: dict[str, float] = field(default_factory=dict)
    rewritten: bool = False

    def as_json(self) -> dict[str, object]:
        ratios = {
            f"lakeward_over_{name}": round(self.seconds["lakeward"] / taken, 3)
            for name, taken in self.seconds.items()
            if name != "lakeward"
        }
        seconds = {name: round(taken, 3) for name, taken in self.seconds.items()}
        peaks = {name: round(peak) for name, peak in self.peak_mb.items()}
        return {**vars(self), "seconds": seconds, "peak_mb": peaks, **ratios}


def measure(
    rows: int, shares: list[float], buckets: int, work: Path, pool: ProcessPoolExecutor, competitors: dict[str, Any]
) -> list[Figures]:
    """The first load, then a round for each of `shares`."""
    with primary_key_competitors.clean(work / f"{rows}") as folder:
        source = PrimaryKeySource(folder, primary_key_table(buckets))
        mine = Lakeward(folder / "data", pool, source.table)
        first = source.load(rows)
        taken, peak, _ = mine.tier(first, source)
        measured = [Figures(rows, 1.0, rows, {"lakeward": taken}, {"lakeward": peak})]
        for competitor in competitors.values():
            competitor.load(f"rows{rows}", first)
        for share in shares:
            changes = source.change(share)
            figures = Figures(rows, share, changes.changes)
            figures.seconds["floor"] = mine.floor(changes, folder)
            figures.seconds["lakeward"], figures.peak_mb["lakeward"], summary = mine.tier(changes, source)
            figures.rewritten = "deleted-data-files" in summary
            for name, competitor in competitors.items():
                figures.seconds[name] = competitor.merge(f"rows{rows}", changes)
            measured.append(figures)
    return measured


def show(rounds: list[Figures], buckets: int) -> None:
    """Prints a row for each round and competitor."""
    table = Table(
        "keys", "changed", "way", "seconds", "lakeward is", "peak MiB", title=f"Primary-key rounds, {buckets} buckets, {CORES} cores"
    )
    for figures in rounds:
        for name, taken in figures.seconds.items():
            ratio = "" if name == "lakeward" else f"{taken / figures.seconds['lakeward']:.2f} x as fast"
            peak = f"{figures.peak_mb[name]:.0f}" if name in figures.peak_mb else ""
            table.add_row(f"{figures.rows:,}", f"{figures.share:.0%}", name, f"{taken:.2f}", ratio, peak)
    Console(width=100).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, action="append", help="repeat it for several sizes; default 1,000,000")
    parser.add_argument("--share", type=float, action="append", help="of the keys that a round changes; default 0.01 and 0.1")
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--without-spark", action="store_true")
    parser.add_argument("--work", type=Path, help="folder for data; default: a temporary one")
    arguments = parser.parse_args()
    shares = arguments.share or [0.01, 0.1]
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(dir=arguments.work) as name, ProcessPoolExecutor(CORES, mp_context=spawn) as pool:
        work, competitors = Path(name), {}
        if not arguments.without_spark:
            competitors["merge"] = primary_key_competitors.SparkMerge(work, CORES, arguments.buckets)
        if find_spec("deltalake") is not None:
            competitors["delta"] = primary_key_competitors.DeltaMerge(work)
        else:
            print("deltalake is not installed, so its merge is left out: see the head of this file")
        measure(WARM_ROWS, shares, arguments.buckets, work, pool, competitors)
        rounds: list[Figures] = []
        for rows in arguments.rows or [1_000_000]:
            rounds += measure(rows, shares, arguments.buckets, work, pool, competitors)
        if "merge" in competitors:
            rounds[-1].peak_mb["merge"] = competitors["merge"].memory_mb()
            competitors["merge"].stop()
    show(rounds, arguments.buckets)
    print(
        json.dumps(
            {
                "bench": "primary_key_round",
                "cores": CORES,
                "buckets": arguments.buckets,
                "rounds": [figures.as_json() for figures in rounds],
            }
        )
    )


if __name__ == "__main__":
    main()
