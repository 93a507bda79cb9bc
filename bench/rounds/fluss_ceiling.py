"""The ceiling of a round on Fluss: pyfluss scans the same rows and pyarrow writes the same Parquet, in as many processes, and nothing else.

The same Parquet as in ceiling.py. Processes and connections are warm; each process copies one bucket after the other.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from dataclasses import dataclass
from typing import Any

import fluss
from rounds.ceiling import BucketFile

POLL_MS = 1_000


@dataclass(frozen=True)
class BucketScan:
    """One bucket of a log table of the database `bench`, from its start up to `stop`, and the Parquet file to write."""

    table_name: str
    bucket_id: int
    stop: int
    target: str


class Scanner:
    """A process's connections to the cluster: one for each scan. On one that is shared the next scan would wait until the server ends
    the question of the one before for records that are yet to come, half a second."""

    def __init__(self, servers: str, scans: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._connections = [self._loop.run_until_complete(_connected(servers)) for _ in range(scans)]

    def copy(self, scan: BucketScan) -> int:
        """Reads and writes one bucket; returns its rows."""
        return self._loop.run_until_complete(_copied(self._connections.pop(), scan))


async def _connected(servers: str) -> Any:
    return await fluss.FlussConnection.create(fluss.Config({"bootstrap.servers": servers}))


async def _copied(connection: Any, scan: BucketScan) -> int:
    table = await connection.get_table(fluss.TablePath("bench", scan.table_name))
    scanner = await table.new_scan().create_record_batch_log_scanner()
    scanner.subscribe(scan.bucket_id, fluss.EARLIEST_OFFSET)
    target, read = BucketFile(scan.bucket_id, scan.target), 0
    while read < scan.stop:
        rows = await scanner.poll_arrow(POLL_MS)
        if rows.num_rows:
            read += rows.num_rows
            target.add(rows)
    return target.close()


_scanners: list[Scanner] = []
"""The one of this process."""


def measure(servers: str, scans: list[BucketScan], warm: list[BucketScan], processes: int) -> tuple[float, int]:
    """Seconds for all scans in `processes` processes that have done `warm` before, all together; and their rows."""
    with multiprocessing.get_context("spawn").Pool(processes, _connect, (servers, len(scans) + processes * len(warm))) as pool:
        pool.map(_copy, warm * processes, chunksize=1)
        start = time.perf_counter()
        rows = sum(pool.imap_unordered(_copy, scans))
        return time.perf_counter() - start, rows


def _connect(servers: str, scans: int) -> None:
    _scanners.append(Scanner(servers, scans))


def _copy(scan: BucketScan) -> int:
    return _scanners[0].copy(scan)
