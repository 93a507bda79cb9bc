"""How fast logs of a real Fluss cluster are read: log splits of ours beside pyfluss's scanner of log tables.

    PYTHONPATH=bench .venv/bin/python bench/fluss/read_log.py --rows 2000000 --keys 500000

Boots a cluster of one tablet server on this machine, writes a log table and a primary-key table of five columns and one bucket each
(every fifth key is updated, every fiftieth deleted), and reads each whole, with each compression. Rows are read to Arrow and dropped.
**CPU** is that of this process alone. Prints a table of the medians of several runs; the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fluss
import numpy as np
import pyarrow as pa
from running.figures import finish, parse

from tiering.cli.fluss_server.local_cluster import local_cluster
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.cluster.fluss.log.reader import open_log_reader
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.source import SchemaHistory
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, TableInfo, TablePath, TableType

COMPRESSIONS = ("NONE", "LZ4_FRAME", "ZSTD")
BUCKET = BucketKey(None, 0)
APPEND_ROWS = 50_000
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("n", pa.int32()),
        ("at", pa.timestamp("us")),
    ]
)


@dataclass(frozen=True)
class Figures:
    """Result of one way to read one table."""

    table: str
    compression: str
    reader: str
    records: int
    seconds: float
    cpu_seconds: float

    @property
    def text(self) -> str:
        return (
            f"{self.table:12} {self.compression:10} {self.reader:8} {self.records:>9,} {self.seconds:7.3f} s "
            f"{self.records / self.seconds / 1e6:6.2f} M/s {self.records / max(self.cpu_seconds, 1e-9) / 1e6:6.2f} M/s of CPU"
        )


def rows(start: int, count: int, random: np.random.Generator) -> pa.RecordBatch:
    ids = np.arange(start, start + count)
    names = pa.array([f"name {number % 1_000}" for number in ids])
    moments = pa.array(1_700_000_000_000_000 + ids * 1_000).cast(pa.timestamp("us"))
    columns = [pa.array(ids), names, pa.array(random.random(count)), pa.array((ids % 97).astype(np.int32)), moments]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


async def write(servers: str, name: str, primary_key: list[str], compression: str, count: int) -> int:
    """Makes and fills a table; its id."""
    connection = await fluss.FlussConnection.create(fluss.Config({"bootstrap.servers": servers}))
    admin, path = connection.get_admin(), fluss.TablePath("bench", name)
    await admin.create_database("bench", ignore_if_exists=True)
    options = {"table.log.arrow.compression.type": compression}
    descriptor = fluss.TableDescriptor(fluss.Schema(SCHEMA, primary_keys=primary_key), bucket_count=1, properties=options)
    await admin.create_table(path, descriptor, False)
    table, random = await connection.get_table(path), np.random.default_rng(1)
    writer = table.new_upsert().create_writer() if primary_key else table.new_append().create_writer()
    for start in range(0, count, APPEND_ROWS):
        batch = rows(start, min(APPEND_ROWS, count - start), random)
        if not primary_key:
            writer.write_arrow_batch(batch)
            continue
        for row in batch.to_pylist():
            writer.upsert(row)
        for row in batch.slice(0, batch.num_rows // 5).to_pylist():
            writer.upsert({**row, "name": "changed"})
        for row in batch.slice(0, batch.num_rows // 50).to_pylist():
            writer.delete({"id": row["id"]})
    await writer.flush()
    table_id = int((await admin.get_table_info(path)).table_id)
    await connection.close()
    return table_id


def read_split(client: FlussClient, connection: FlussConnection, table: TableInfo) -> int:
    """Reads a whole bucket as a round does; how many records there were."""
    bounds = BucketLog(client, table.path, table.table_id, BUCKET).bounds()
    split = TieringLogSplit(table.path, BUCKET, None, 0, bounds.log_end, bounds.log_end)
    reader = open_log_reader(connection, table, split, bounds, SchemaHistory(client).of(table), {})
    return sum(batch.num_rows for batch in reader.read())


async def scan(servers: str, name: str, count: int) -> int:
    """Reads a whole log table with pyfluss."""
    connection = await fluss.FlussConnection.create(fluss.Config({"bootstrap.servers": servers}))
    table = await connection.get_table(fluss.TablePath("bench", name))
    scanner = await table.new_scan().create_record_batch_log_scanner()
    scanner.subscribe(0, fluss.EARLIEST_OFFSET)
    read = 0
    while read < count:
        read += (await scanner.poll_arrow(1_000)).num_rows
    await connection.close()
    return read


def measured(table: str, compression: str, reader: str, runs: int, read: Callable[[], int]) -> Figures:
    walls, cpus, records = [], [], read()  # the first run warms up
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        read()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return Figures(table, compression, reader, records, statistics.median(walls), statistics.median(cpus))


def measure(servers: str, arguments: argparse.Namespace) -> list[Figures]:
    connection = FlussConnection.parse(servers)
    client = FlussClient(connection)
    figures: list[Figures] = []
    for compression in COMPRESSIONS:
        for kind, count in ((TableType.LOG, arguments.rows), (TableType.PRIMARY_KEY, arguments.keys)):
            name = f"{kind.lower()}_{compression.lower()}"
            primary_key = ["id"] if kind is TableType.PRIMARY_KEY else []
            table_id = asyncio.run(write(servers, name, primary_key, compression, count))
            table = TableInfo(table_id, TablePath("bench", name), kind, SCHEMA, 1, datetime.now(UTC), primary_key=tuple(primary_key))
            figures.append(
                measured(kind, compression, "lakeward", arguments.runs, lambda table=table: read_split(client, connection, table))
            )
            if kind is TableType.LOG:
                scanned: Callable[[], Any] = lambda name=name: asyncio.run(scan(servers, name, arguments.rows))  # noqa: E731
                figures.append(measured(kind, compression, "pyfluss", arguments.runs, scanned))
    client.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the log table")
    parser.add_argument("--keys", type=int, default=500_000, help="of the primary-key table")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parse(parser, rows=5_000, keys=500, runs=1)
    with tempfile.TemporaryDirectory() as folder, local_cluster(Path(folder)) as cluster:
        figures = measure(cluster.bootstrap_servers, arguments)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    report = {"bench": "read_log", "peak_mb": peak_mb, "figures": [asdict(line) for line in figures]}
    finish(report, lambda: print("\n".join(line.text for line in figures)))


if __name__ == "__main__":
    main()
