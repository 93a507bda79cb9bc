"""A round of a primary-key table, side by side with MERGE and with its floor, in one run: the lake layer alone, without a cluster.

    .venv/bin/uv pip install --target build/bench --group bench
    PYTHONPATH=build/bench .venv/bin/python bench/primary_key_round.py --rows 1000000 --rows 10000000 [--share 0.01] [--buckets 4]
    .venv/bin/python bench/primary_key_round.py --lake paimon --share 0.1
    .venv/bin/python bench/primary_key_round.py --layout system-columns --layout clean --without-spark

The first line puts deltalake beside the environment, which stays as requirements.lock has it.

lakeward    changelogs by bucket -> writers in as many warm processes as cores -> one fenced commit
floor       the same processes read the key column of the lake's files once and write the changed rows, and nothing else
merge       Spark MERGE INTO Iceberg, merge-on-read, warm, of the last changes (the fold is given to it)
delta       deltalake's merge, likewise; left out, and said so, if deltalake is not installed

With `--lake paimon` the floor writes the changed rows and the changelog, and beside it are (competitors/paimon_competitors.py)

pypaimon    pypaimon's own write and commit of the last changes, in this process; without the deletes, for which it has no way
java        Paimon's Java write and commit of all changes in a warm JVM, a bucket a thread, rows in memory before the clock runs

Of several layouts, merge and delta run beside the first. Also printed: MB (10^6 bytes) of the files that lakeward wrote in the round, those
of deletes included; the peak memory of a worker, and of Spark's JVM. `--buckets 1` makes one task of it all: 10,000,000 keys are to stay
below 1.5 GB. Half of the changelog's records are `-U`. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
from competitors import paimon_competitors, primary_key_competitors
from rich.console import Console
from rich.table import Table
from rounds.primary_key_source import PrimaryKeySource, Round, primary_key_table
from running.figures import finish, parse

from tiering.lake.base import Committable, LakeTieringFactory, LakeView, WriterInitContext
from tiering.lake.iceberg.primary_key.bucket_files import decode_bucket_files
from tiering.lake.layouts import Layout
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.bucket_proof import advanced
from tiering.lake.registry import local_lake_properties, open_lake
from tiering.lake.table_options import LAYOUT
from tiering.lake.writing.serializers import deserialize_write_result, serialize_write_result
from tiering.model.tables import BucketKey, TableInfo

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
    return serialize_write_result(result), primary_key_competitors.peak_mb()


class Lakeward:
    """One lake, and rounds of it. `check` is called with the rows that have to be there after each."""

    def __init__(self, folder: Path, pool: ProcessPoolExecutor, table: TableInfo, check: Callable[[int], None] | None = None) -> None:
        folder.mkdir()
        self._table = table
        self._check = check or self._check_records
        self.lake = open_lake(table.lake_format, local_lake_properties(folder))
        self._pool = pool
        self._rounds = 0
        self.written_mb = 0.0
        """By the newest round."""

    def tier(self, changes: Round, source: PrimaryKeySource) -> tuple[float, float]:
        """Seconds, and peak MiB of a worker."""
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
        results = [deserialize_write_result(data) for data, _ in done]
        after = {result.bucket: TieredRange(0, result.reached_offset) for result in results}
        base_round = None if view.marker is None else view.marker.round_id
        proofs = advanced({} if view.marker is None else view.marker.proofs, before, after, results, round_id)
        marker = Marker("bench", self._table.table_id, view.table_uuid, round_id, 1, base_round, after, proofs=proofs)
        committer.commit(Committable(round_id, tuple(results)), view, marker)
        taken = time.perf_counter() - start
        self.written_mb = sum(result.size_bytes for result in results) / 1e6
        self._check(changes.rows_after)
        return taken, max(peak for _, peak in done)

    def has_rewritten(self) -> bool:
        """Whether the newest round replaced data files."""
        if self._table.lake_format != "iceberg":
            return False
        handle: Any = self._view().handle
        return "deleted-data-files" in handle.current_snapshot().summary.additional_properties

    def _check_records(self, rows: int) -> None:
        if (left := self._view().records) != rows:
            raise SystemExit(f"the round left {left} of {rows} rows")

    def _view(self) -> LakeView:
        view = self.lake.view(self._table.path)
        assert view is not None
        return view

    def floor(self, changes: Round, folder: Path) -> float:
        """Seconds; to be measured before the round, on the files that it finds."""
        view = self.lake.ensure_table(self._table)
        columns = tuple(LAYOUT.of(self._table.properties).lake_schema(self._table).names)
        jobs = _paimon_floor(changes, folder, columns)
        if self._table.lake_format == "iceberg":
            jobs = _iceberg_floor(changes, folder, columns, self.lake.bucket_files(self._table, view, dict.fromkeys(changes.logs)))
        start = time.perf_counter()
        for future in [self._pool.submit(work, job) for work, job in jobs]:
            future.result()
        return time.perf_counter() - start


def _iceberg_floor(
    changes: Round, folder: Path, columns: tuple[str, ...], bases: Mapping[BucketKey, bytes]
) -> list[tuple[Callable[[Any], int], Any]]:
    jobs = [
        primary_key_competitors.FloorJob(
            tuple(file.location.removeprefix("file://") for file in decode_bucket_files(bases[key]).data),
            str(log),
            str(folder / f"{key}.parquet"),
            columns,
        )
        for key, log in changes.logs.items()
    ]
    return [(primary_key_competitors.floor, job) for job in jobs]


def _paimon_floor(changes: Round, folder: Path, columns: tuple[str, ...]) -> list[tuple[Callable[[Any], int], Any]]:
    targets = ((str(folder / f"{key}.parquet"), str(folder / f"{key}-changes.parquet")) for key in changes.logs)
    jobs = [paimon_competitors.FloorJob(str(log), *paths, columns) for log, paths in zip(changes.logs.values(), targets, strict=True)]
    return [(paimon_competitors.floor, job) for job in jobs]


@dataclass
class Figures:
    """Result of one round."""

    layout: str
    rows: int
    share: float
    changes: int
    written_mb: float = 0.0
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
        return {**vars(self), "written_mb": round(self.written_mb, 2), "seconds": seconds, "peak_mb": peaks, **ratios}


@dataclass
class Competitors:
    """The competitors by name. `paimon`: the tables of the competitors that write Paimon."""

    by_name: dict[str, Any] = field(default_factory=dict)
    paimon: paimon_competitors.PaimonTables | None = None

    def close(self) -> None:
        if "merge" in self.by_name:
            self.by_name["merge"].stop()
        if self.paimon is not None:
            self.paimon.close()


def competitors_of(table: TableInfo, work: Path, with_others: bool) -> Competitors:
    """Competitors for the table's lake format, warm after a small round."""
    if table.lake_format == "paimon":
        tables = paimon_competitors.PaimonTables(work, table, CORES)
        by_name = {"pypaimon": paimon_competitors.PyPaimon(tables), "java": paimon_competitors.PaimonJava(tables)}
        return Competitors(by_name if with_others else {}, tables)
    competitors = Competitors()
    if with_others:
        competitors.by_name["merge"] = primary_key_competitors.SparkMerge(work, CORES, table.bucket_count)
    if find_spec("deltalake") is not None:
        competitors.by_name["delta"] = primary_key_competitors.DeltaMerge(work)
    else:
        print("deltalake is not installed, so its merge is left out: see the head of this file")
    return competitors


def measure(
    rows: int, shares: list[float], table: TableInfo, work: Path, pool: ProcessPoolExecutor, competitors: Competitors
) -> list[Figures]:
    """The first load, then a round for each of `shares`."""
    with primary_key_competitors.clean(work / f"{rows}") as folder:
        source = PrimaryKeySource(folder, table)
        check = None
        if (paimon := competitors.paimon) is not None:
            check = partial(paimon.check, paimon.root(folder / "data" / "lake"))
        mine = Lakeward(folder / "data", pool, source.table, check)
        first = source.load(rows)
        taken, peak = mine.tier(first, source)
        layout = LAYOUT.of(table.properties)
        measured = [Figures(layout, rows, 1.0, rows, mine.written_mb, {"lakeward": taken}, {"lakeward": peak})]
        for competitor in competitors.by_name.values():
            competitor.load(f"rows{rows}", first)
        for share in shares:
            changes = source.change(share)
            figures = Figures(layout, rows, share, changes.changes)
            figures.seconds["floor"] = mine.floor(changes, folder)
            figures.seconds["lakeward"], figures.peak_mb["lakeward"] = mine.tier(changes, source)
            figures.written_mb, figures.rewritten = mine.written_mb, mine.has_rewritten()
            for name, competitor in competitors.by_name.items():
                figures.seconds[name] = competitor.merge(f"rows{rows}", changes)
            measured.append(figures)
    return measured


def show(rounds: list[Figures], lake_format: str, buckets: int) -> None:
    """Prints a row for each round and competitor."""
    title = f"Primary-key rounds to {lake_format}, {buckets} buckets, {CORES} cores"
    table = Table("keys", "changed", "layout", "way", "seconds", "lakeward is", "MB", "peak MiB", title=title)
    for figures in rounds:
        for name, taken in figures.seconds.items():
            ratio = "" if name == "lakeward" else f"{taken / figures.seconds['lakeward']:.2f} x as fast"
            written = f"{figures.written_mb:.2f}" if name == "lakeward" else ""
            peak = f"{figures.peak_mb[name]:.0f}" if name in figures.peak_mb else ""
            cells = (figures.layout, name, f"{taken:.2f}", ratio, written, peak)
            table.add_row(f"{figures.rows:,}", f"{figures.share:.0%}", *cells)
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, action="append", help="repeat it for several sizes; default 1,000,000")
    parser.add_argument("--share", type=float, action="append", help="of the keys that a round changes; default 0.01 and 0.1")
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--lake", choices=("iceberg", "paimon"), default="iceberg")
    parser.add_argument("--layout", type=Layout, action="append", help="system-columns (default) or clean; repeat it for both side by side")
    parser.add_argument("--without-spark", action="store_true", help="leave MERGE out; of Paimon pypaimon's and Java's writes")
    parser.add_argument("--work", type=Path, help="folder for data; default: a temporary one")
    arguments = parse(parser, rows=[2_000], share=[0.1])
    shares, sizes = arguments.share or [0.01, 0.1], arguments.rows or [1_000_000]
    spawn = multiprocessing.get_context("spawn")
    rounds: list[Figures] = []
    with tempfile.TemporaryDirectory(dir=arguments.work) as name, ProcessPoolExecutor(CORES, mp_context=spawn) as pool:
        for layout in arguments.layout or [Layout.SYSTEM_COLUMNS]:
            work = Path(name) / layout
            work.mkdir()
            table = primary_key_table(arguments.buckets, arguments.lake, layout)
            competitors = Competitors()
            if not rounds or arguments.lake == "paimon":
                competitors = competitors_of(table, work, not arguments.without_spark)
            measure(min(WARM_ROWS, 10 * max(sizes)), shares, table, work, pool, competitors)
            for rows in sizes:
                rounds += measure(rows, shares, table, work, pool, competitors)
            if "merge" in competitors.by_name:
                rounds[-1].peak_mb["merge"] = competitors.by_name["merge"].memory_mb()
            competitors.close()
    report = {"bench": "primary_key_round", "lake": arguments.lake, "cores": CORES, "buckets": arguments.buckets}
    finish({**report, "rounds": [figures.as_json() for figures in rounds]}, lambda: show(rounds, arguments.lake, arguments.buckets))


if __name__ == "__main__":
    main()
