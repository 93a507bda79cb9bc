"""Rounds of a real Fluss cluster, side by side with their ceiling, in one run.

    .venv/bin/python bench/fluss_round.py --rows 2000000 --keys 500000

Boots ZooKeeper, a coordinator and a tablet server on this machine, which share its cores with `lakeward up` and its Spark. The tables have
five columns and four buckets:

log        a log table of `--rows` rows
inserts    the first round of a primary-key table: `--keys` inserts
updates    its next one: a fifth of the keys updated, a fiftieth deleted. An update is two records of the changelog
ceiling    of the log table: pyfluss scans the same and pyarrow writes the same Parquet (rounds/fluss_ceiling.py)

A round is timed from its assignment to the end of the lake commit; `to the end` is the whole round, until the cluster knows of the commit
and the coordinator of its end. Each figure is the median of several rounds, each of a table of its own. Also printed: CPU seconds and peak
memory by process, and where a round's time went. The lake plugin of the tests lets tables be tiered. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import running.tests_path  # what is imported next needs it
from rich.console import Console
from rich.table import Table
from rounds import fluss_ceiling, round_parts
from rounds.sources import FLIGHTS
from running.figures import finish, parse

from support.clusters.fluss_plugin import no_tables_plugins
from tiering.cli.fluss_server.configuration import ClusterSettings
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster, local_cluster
from tiering.client import LakewardClient
from tiering.cluster.fluss.settings import FlussConnection, FlussSettings
from tiering.cluster.fluss.source import FlussSource
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.writing.writer import FlussWriter
from tiering.cluster.writable import TableSpec
from tiering.errors import UnknownTable
from tiering.lake.registry import local_lake_properties, open_lake
from tiering.model.names import table_path
from tiering.model.tables import TablePath

BUCKETS = 4
CORES = os.cpu_count() or 1
WARM_ROWS, WARM_KEYS = 200_000, 20_000
APPEND_ROWS = 10_000
"""Rows of one batch: pyfluss puts a batch into one bucket, and buckets should have about the same size."""
HOUR = {"table.datalake.enabled": "true", "table.datalake.freshness": "1h"}
LISTED_SECONDS = 60.0
"""How long the coordinator may take to see a new table."""


@dataclass(frozen=True)
class RoundFigures:
    """Result of one round, in seconds; CPU by process."""

    records: int
    seconds: float
    to_the_end: float
    parts: Mapping[str, float]
    cpu: Mapping[str, float]


@dataclass(frozen=True)
class Bench:
    """The running processes: the cluster, and `lakeward up` with its pid and data folder."""

    cluster: LocalFlussCluster
    source: FlussSource
    writer: FlussWriter
    uri: str
    pid: int
    data: Path

    def processes(self) -> dict[str, list[int]]:
        """Pids by what they are."""
        servers = {"fluss coordinator": self.cluster.coordinator, "zookeeper": self.cluster.zookeeper}
        servers["fluss tablet server"] = self.cluster.tablet_servers[0]
        return {**round_parts.processes_of(self.pid), **{name: [server.pid] for name, server in servers.items()}}

    def cpu_seconds(self) -> dict[str, float]:
        return {name: sum(map(round_parts.cpu_seconds, pids)) for name, pids in self.processes().items()}

    def peak_memory_mb(self) -> dict[str, int]:
        return {name: round(max(map(round_parts.peak_mb, pids))) for name, pids in self.processes().items()}


@contextmanager
def running(folder: Path, inline_round_bytes: int | None, slots: int | None = None) -> Iterator[Bench]:
    settings = ClusterSettings(plugins_folder=no_tables_plugins(), lake={"type": "hadoop", "warehouse": "/nowhere"})
    with ExitStack() as stack:
        cluster = stack.enter_context(local_cluster(folder / "fluss", settings))
        uri, pid = stack.enter_context(service(folder / "data", cluster.bootstrap_servers, inline_round_bytes, slots))
        connection = FlussConnection.parse(cluster.bootstrap_servers)
        writer = FlussWriter(connection, FlussClient(connection), FlussSettings((cluster.bootstrap_servers,), "bench"))
        stack.callback(writer.close)
        yield Bench(cluster, writer, writer, uri, pid, folder / "data")


@contextmanager
def service(folder: Path, servers: str, inline_round_bytes: int | None, slots: int | None) -> Iterator[tuple[str, int]]:
    """`lakeward up` for the cluster: where it answers, and its pid."""
    command = [sys.executable, "-m", "tiering.cli.main", "up", "--data", str(folder), "--port", "0", "--log-level", "debug"]
    command += ["--fluss", servers, "--fluss-cluster-id", "bench", "--fluss-mode", "exclusive", "--create-lake-tables"]
    command += ["--master", f"local[{CORES}]"]
    if inline_round_bytes is not None:
        command += ["--inline-round-bytes", str(inline_round_bytes)]
    if slots is not None:
        command += ["--slots", str(slots)]
    with folder.with_suffix(".log").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        line = next((line for line in process.stdout if line.startswith("lakeward is ready: ")), None)
        if line is None:
            raise SystemExit(folder.with_suffix(".log").read_text()[-2_000:])
        yield line.split(": ")[1].strip(), process.pid
    finally:
        process.terminate()
        process.wait(30)


def load_log(bench: Bench, path: TablePath, rows: int) -> None:
    bench.writer.create_table(path, TableSpec(FLIGHTS.schema, BUCKETS, properties=HOUR))
    for batch in FLIGHTS.batches(rows, Path()):
        for start in range(0, batch.num_rows, APPEND_ROWS):
            bench.writer.append(path, batch.slice(start, APPEND_ROWS), "bench", 0)


def insert(bench: Bench, path: TablePath, keys: int) -> None:
    schema = FLIGHTS.schema.set(0, pa.field("flight_id", pa.int64(), nullable=False))
    bench.writer.create_table(path, TableSpec(schema, BUCKETS, primary_key=("flight_id",), properties=HOUR))
    for batch in FLIGHTS.batches(keys, Path()):
        bench.writer.upsert(path, batch, "bench", 0)


def update(bench: Bench, path: TablePath, keys: int) -> int:
    """Updates a fifth of the keys and deletes a fiftieth, other ones; how many records of the changelog that takes."""
    chosen = np.random.default_rng(7).permutation(keys)[: keys // 5 + keys // 50]
    updated, deleted = np.sort(chosen[: keys // 5]), np.sort(chosen[keys // 5 :])
    [rows] = pa.Table.from_batches(FLIGHTS.batches(keys, Path())).take(pa.array(updated)).combine_chunks().to_batches()
    later = pa.array(np.asarray(rows.column("delay_minutes")) + 1_000, pa.int32())
    bench.writer.upsert(path, rows.set_column(1, "delay_minutes", later), "bench", 0)
    bench.writer.delete(path, pa.record_batch({"flight_id": pa.array(deleted)}), "bench", 0)
    return 2 * len(updated) + len(deleted)


def timed_round(bench: Bench, path: TablePath, records: int, lake_records: int) -> RoundFigures:
    """A round of the table, which has to leave so many rows in the lake: a benchmark of a wrong answer is worth nothing."""
    read, whole = round_parts.work_ahead(bench.source, path, open_lake("iceberg", local_lake_properties(bench.data)), bench.data.parent)
    since, cpu = time.time(), bench.cpu_seconds()
    with LakewardClient(bench.uri) as client:
        result = tier(client, path)
        used = {name: seconds - cpu.get(name, 0.0) for name, seconds in bench.cpu_seconds().items()}
        [status] = client.list_tiering_statuses(table_path=path)
    if (result, status.lake_records) != ("SUCCEEDED", lake_records) or status.last_round_duration_ms is None:
        raise SystemExit(f"the round of {path} ended as {result}; {status.lake_records} of {lake_records} rows are in the lake")
    timeline = round_parts.timeline(bench.data / "logs" / "tierer.log", since)
    figures = figures_of(records, timeline, status.last_round_duration_ms / 1_000, (read, whole), used)
    print(f"{path}: {figures.seconds:.3f} s", file=sys.stderr)
    return figures


def tier(client: LakewardClient, path: TablePath) -> str:
    deadline = time.monotonic() + LISTED_SECONDS
    while True:
        try:
            return client.tier_table(path, timeout_ms=600_000).state
        except UnknownTable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def figures_of(
    records: int, timeline: Sequence[tuple[str, float]], to_the_end: float, work: tuple[float, float], cpu: Mapping[str, float]
) -> RoundFigures:
    """`work`: core seconds of reading, and of reading and writing. Of rounds without Spark the part `spark` is the price of one core."""
    steps = round_parts.durations(timeline, until="CommitLake")
    seconds = sum(steps.values())
    parts = round_parts.parts_of_work(steps.get("RunSplits", 0.0), *work, CORES)
    parts["lease"] = steps.get("LeaseSnapshots", 0.0)
    parts["commit"] = steps.get("BeginCommit", 0.0) + steps.get("CommitLake", 0.0)
    parts["other"] = round_parts.rest_of(seconds, parts)
    return RoundFigures(records, seconds, to_the_end, {**parts, **{f"step {name}": taken for name, taken in steps.items()}}, cpu)


def measure_log(bench: Bench, rows: int, times: int, work: Path) -> tuple[list[RoundFigures], list[float]]:
    """Rounds, each followed by its ceiling."""
    warm = scans(bench, table_path("bench", "warm_log"), work / "warm-ceiling")
    rounds, ceilings = [], []
    for number in range(times):
        path = table_path("bench", f"log{number}")
        load_log(bench, path, rows)
        rounds.append(timed_round(bench, path, rows, rows))
        of_table = scans(bench, path, work / f"ceiling{number}")
        seconds, copied = fluss_ceiling.measure(bench.cluster.bootstrap_servers, of_table, warm, CORES)
        if copied != rows:
            raise SystemExit(f"the ceiling copied {copied} of {rows} rows")
        ceilings.append(seconds)
        print(f"ceiling of {path}: {seconds:.3f} s", file=sys.stderr)
    return rounds, ceilings


def scans(bench: Bench, path: TablePath, folder: Path) -> list[fluss_ceiling.BucketScan]:
    folder.mkdir(parents=True)
    ends = {bucket.bucket_id: log.log_end for bucket, log in bench.source.offsets(bench.source.table(path)).items()}
    return [
        fluss_ceiling.BucketScan(path.table_name, bucket_id, end, str(folder / f"{bucket_id}.parquet")) for bucket_id, end in ends.items()
    ]


def measure_keys(bench: Bench, keys: int, times: int) -> tuple[list[RoundFigures], list[RoundFigures]]:
    """Rounds of inserts, and of updates."""
    inserts, updates = [], []
    for number in range(times):
        path = table_path("bench", f"keys{number}")
        insert(bench, path, keys)
        inserts.append(timed_round(bench, path, keys, keys))
        records = update(bench, path, keys)
        updates.append(timed_round(bench, path, records, keys - keys // 50))
    return inserts, updates


def warm_up(bench: Bench, rows: int, keys: int) -> None:
    """Rounds of each kind, so that JVMs, connections and workers are there."""
    bench.writer.create_database("bench")
    path = table_path("bench", "warm_log")
    load_log(bench, path, rows)
    timed_round(bench, path, rows, rows)
    path = table_path("bench", "warm_keys")
    insert(bench, path, keys)
    timed_round(bench, path, keys, keys)
    timed_round(bench, path, update(bench, path, keys), keys - keys // 50)


def medians(rounds: Sequence[RoundFigures]) -> RoundFigures:
    def median(value: Callable[[RoundFigures], float]) -> float:
        return round(statistics.median(map(value, rounds)), 3)

    parts = {name: median(lambda figures, name=name: figures.parts.get(name, 0.0)) for name in rounds[0].parts}
    cpu = {name: median(lambda figures, name=name: figures.cpu.get(name, 0.0)) for name in rounds[0].cpu}
    return RoundFigures(rounds[0].records, median(lambda it: it.seconds), median(lambda it: it.to_the_end), parts, cpu)


def show(figures: Mapping[str, RoundFigures], ceiling: float, memory: Mapping[str, int]) -> None:
    table = Table("round", "records", "seconds", "records/s", "of ceiling", "to the end", title=f"Fluss, {BUCKETS} buckets, {CORES} cores")
    for name, of_round in figures.items():
        share = f"{ceiling / of_round.seconds:.2f}" if name == "log" else ""
        rate = f"{of_round.records / of_round.seconds:,.0f}"
        table.add_row(name, f"{of_round.records:,}", f"{of_round.seconds:.2f}", rate, share, f"{of_round.to_the_end:.2f}")
        if name == "log":
            table.add_row("ceiling", f"{of_round.records:,}", f"{ceiling:.2f}", f"{of_round.records / ceiling:,.0f}", "1.00", "")
    console = Console(width=120)
    console.print(table)
    for name, of_round in figures.items():
        parts = ", ".join(f"{part} {taken:.2f}" for part, taken in of_round.parts.items() if not part.startswith("step "))
        steps = ", ".join(f"{part.removeprefix('step ')} {taken:.3f}" for part, taken in of_round.parts.items() if part.startswith("step "))
        cpu = ", ".join(f"{process} {used:.2f}" for process, used in of_round.cpu.items())
        console.print(f"{name}: seconds by part: {parts}\n  by step: {steps}\n  CPU seconds: {cpu}", highlight=False)
    console.print("peak MiB: " + ", ".join(f"{process} {peak}" for process, peak in memory.items()), highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the log table")
    parser.add_argument("--keys", type=int, default=500_000, help="of the primary-key table")
    parser.add_argument("--times", type=int, default=3, help="rounds of each kind; their median counts")
    parser.add_argument("--inline-round-bytes", type=int, help="as `lakeward up` takes it; 0: every round on Spark")
    parser.add_argument("--work", type=Path, help="folder for data; default: a temporary one")
    arguments = parse(parser, rows=20_000, keys=2_000, times=1)
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder, running(Path(folder), arguments.inline_round_bytes) as bench:
        warm_up(bench, min(WARM_ROWS, arguments.rows), min(WARM_KEYS, arguments.keys))
        log_rounds, ceilings = measure_log(bench, arguments.rows, arguments.times, Path(folder))
        inserts, updates = measure_keys(bench, arguments.keys, arguments.times)
        figures = {"log": medians(log_rounds), "inserts": medians(inserts), "updates": medians(updates)}
        ceiling, memory = statistics.median(ceilings), bench.peak_memory_mb()
    rounds = {name: asdict(of_round) for name, of_round in figures.items()}
    report = {"bench": "fluss_round", "cores": CORES, "rounds": rounds, "ceiling_s": round(ceiling, 3), "peak_memory_mb": memory}
    finish(report, lambda: show(figures, ceiling, memory))


if __name__ == "__main__":
    main()
