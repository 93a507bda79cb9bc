"""A Lakeward round of a log table, side by side with its ceiling and with Spark Structured Streaming, in one run.

    .venv/bin/python bench/log_round.py --rows 2000000 --rows 20000000

(a) a Lakeward round: `lakeward up` on this machine, a Spark round on as many cores, from the assignment to the ack;
(b) the ceiling (ceiling.py); (c) Structured Streaming `availableNow` into Iceberg (spark_streaming.py).
Prints a table; the last line is one JSON object. MB are 10^6 bytes of Arrow data in memory.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import ceiling
import pyarrow.parquet as pq
import spark_streaming
from flight_rows import SCHEMA, flight_batches
from rich.console import Console
from rich.table import Table

from tiering.client import LakewardClient
from tiering.cluster.embedded.base import TableSpec
from tiering.cluster.embedded.remote import RemoteEmbeddedCluster
from tiering.cluster.embedded.writer import LogWriter
from tiering.model import BucketKey, TieringLogSplit
from tiering.names import table_path

BUCKETS = 4
CORES = os.cpu_count() or 1
WARM_ROWS = 200_000
HOUR = {"table.datalake.enabled": "true", "table.datalake.freshness": "1 h"}


@dataclass(frozen=True)
class Figures:
    """Of one size. Seconds; `arrow_mb` is what was moved."""

    rows: int
    arrow_mb: float
    lakeward: float
    ceiling: float
    streaming: float

    def as_json(self) -> dict[str, float]:
        """With rates and the two ratios that matter."""
        rates = {name: self.rows / seconds for name, seconds in self.seconds().items()}
        return {
            "rows": self.rows,
            "arrow_mb": round(self.arrow_mb, 1),
            **{f"{name}_seconds": round(seconds, 3) for name, seconds in self.seconds().items()},
            **{f"{name}_rows_per_s": round(rate) for name, rate in rates.items()},
            "lakeward_over_ceiling": round(rates["lakeward"] / rates["ceiling"], 3),
            "lakeward_over_streaming": round(rates["lakeward"] / rates["streaming"], 2),
        }

    def seconds(self) -> dict[str, float]:
        return {"lakeward": self.lakeward, "ceiling": self.ceiling, "streaming": self.streaming}


@contextmanager
def service(folder: Path) -> Iterator[str]:
    """`lakeward up` with every round on Spark; its uri."""
    command = [sys.executable, "-m", "tiering.cli.main", "up", "--data", str(folder), "--port", "0", "--inline-round-bytes", "0"]
    command += ["--master", f"local[{CORES}]", "--log-level", "warning"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("lakeward is ready: "))
        yield line.split(": ")[1].strip()
    finally:
        process.terminate()
        process.wait(30)


def load(uri: str, name: str, rows: int) -> float:
    """Fills a table; MB of Arrow data."""
    path = table_path("bench", name)
    size = 0
    with RemoteEmbeddedCluster(uri) as cluster:
        cluster.create_database("bench", ignore_if_exists=True)
        cluster.create_table(path, TableSpec(SCHEMA, BUCKETS, properties=HOUR))
        writer = LogWriter(cluster, path, f"bench-{name}")
        for batch in flight_batches(rows):
            size += batch.nbytes
            writer.append(batch)
    return size / 1e6


def run_round(uri: str, name: str) -> float:
    """Seconds of the round that a CALL makes, as the coordinator saw it: from the assignment to its end."""
    path = table_path("bench", name)
    with LakewardClient(uri) as client:
        result = client.tier_table(path, timeout_ms=1_800_000)
        if result.state != "SUCCEEDED":
            raise SystemExit(f"the round of {path} ended as {result.state}")
        [status] = client.list_tiering_statuses(table_path=path)
    assert status.last_round_duration_ms is not None
    return status.last_round_duration_ms / 1_000


def ceiling_jobs(uri: str, name: str, target: Path) -> list[ceiling.BucketJob]:
    """The very segments that the round read."""
    target.mkdir(parents=True)
    path = table_path("bench", name)
    jobs = []
    with RemoteEmbeddedCluster(uri) as cluster:
        table = cluster.table(path)
        for bucket, log in cluster.offsets(table).items():
            reader = cluster.reader(table, TieringLogSplit(path, bucket, None, log.log_start, log.log_end, log.log_end))
            segments = tuple(str(Path(reader.root) / segment.path) for segment in reader.segments)
            jobs.append(ceiling.BucketJob(bucket.bucket_id, segments, str(target / f"{bucket.bucket_id}.parquet")))
    return jobs


def check_rows(uri: str, name: str, expected: int) -> None:
    """A benchmark of a wrong answer is worth nothing: every offset has to be in the lake once."""
    path = table_path("bench", name)
    with RemoteEmbeddedCluster(uri) as cluster:
        ends: dict[BucketKey, int] = {bucket: log.log_end for bucket, log in cluster.offsets(cluster.table(path)).items()}
    with LakewardClient(uri) as client:
        [status] = client.list_tiering_statuses(table_path=path)
    if sum(ends.values()) != expected or status.lake_records != expected:
        raise SystemExit(f"{path}: {expected} rows loaded, {sum(ends.values())} in the log, {status.lake_records} in the lake")


def measure(rows: int, work: Path) -> Figures:
    """All three on the same number of rows, one after the other."""
    with service(work / "data") as uri:
        load(uri, "warm", WARM_ROWS)
        run_round(uri, "warm")
        arrow_mb = load(uri, "flights", rows)
        lakeward = run_round(uri, "flights")
        check_rows(uri, "flights", rows)
        jobs = ceiling_jobs(uri, "flights", work / "ceiling")
    ceiling_seconds, copied = ceiling.measure(jobs, CORES)
    if copied != rows:
        raise SystemExit(f"the ceiling copied {copied} of {rows} rows")
    shutil.rmtree(work / "data")
    spark_streaming.write_source(work / "source", rows)
    spark_streaming.write_source(work / "warm-source", WARM_ROWS)
    streaming = spark_streaming.measure(work / "source", work / "warm-source", work, CORES)
    written = sum(pq.read_metadata(path).num_rows for path in (work / "warehouse" / "bench" / "flights").rglob("*.parquet"))
    if written != rows:
        raise SystemExit(f"streaming wrote {written} of {rows} rows")
    return Figures(rows, arrow_mb, lakeward, ceiling_seconds, streaming)


def show(figures: list[Figures]) -> None:
    """A row a size and way."""
    table = Table("rows", "way", "seconds", "rows/s", "MB/s", "of ceiling", title=f"Log round, {BUCKETS} buckets, {CORES} cores")
    for one in figures:
        for name, seconds in one.seconds().items():
            share = one.ceiling / seconds
            table.add_row(
                f"{one.rows:,}", name, f"{seconds:.2f}", f"{one.rows / seconds:,.0f}", f"{one.arrow_mb / seconds:.0f}", f"{share:.2f}"
            )
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, action="append", help="repeat it for several sizes; default 2,000,000")
    parser.add_argument("--work", type=Path, help="folder for data; default: a temporary one")
    arguments = parser.parse_args()
    figures = []
    for rows in arguments.rows or [2_000_000]:
        with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
            figures.append(measure(rows, Path(folder)))
    show(figures)
    print(json.dumps({"bench": "log_round", "cores": CORES, "buckets": BUCKETS, "sizes": [one.as_json() for one in figures]}))


if __name__ == "__main__":
    main()
