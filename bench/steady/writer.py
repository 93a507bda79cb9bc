"""A process that writes rows at a constant rate into one table, and a few now and then into each of many small ones."""

from __future__ import annotations

import asyncio
import math
import multiprocessing as mp
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import fluss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rounds.sources import FLIGHTS

TICK_S = 0.2
"""Seconds of rows that are written at once."""
FILE_TICK_S = 1.0
"""Seconds of rows in one file: a stream of files has few large files rather than many small ones."""
SMALL_ROWS, SMALL_EVERY_S = 10, 5.0
"""Rows that each small table gets at a time, and how often."""
APPEND_ROWS = 10_000
"""Rows in one batch. pyfluss puts a batch into one bucket, and buckets are to be about even."""
START_S = 60.0
_DISTINCT_ROWS = 100_000


@dataclass(frozen=True)
class Order:
    """The rows to write. `small`: names of the small tables."""

    table: str
    small: tuple[str, ...]
    rate: float
    seconds: float

    @property
    def rows(self) -> int:
        """How many rows the table has in the end."""
        return int(self.rate * self.seconds)


class Target(Protocol):
    """Where the rows go; it is sent to the writer's process."""

    tick_s: float

    def open(self, names: Sequence[str]) -> AbstractAsyncContextManager[Sink]: ...


class Sink(Protocol):
    """Takes the rows of one tick."""

    async def write(self, rows: Sequence[tuple[str, pa.RecordBatch]]) -> None:
        """Returns when they are durable."""


@dataclass(frozen=True)
class FlussTarget:
    """Tables of the database `bench` of a Fluss cluster."""

    servers: str
    tick_s: float = TICK_S

    @asynccontextmanager
    async def open(self, names: Sequence[str]) -> AsyncIterator[Sink]:
        connection = await fluss.FlussConnection.create(fluss.Config({"bootstrap.servers": self.servers}))
        try:
            tables = {name: await connection.get_table(fluss.TablePath("bench", name)) for name in names}
            yield _FlussSink({name: table.new_append().create_writer() for name, table in tables.items()})
        finally:
            await connection.close()


@dataclass(frozen=True)
class _FlussSink:
    writers: dict[str, Any]

    async def write(self, rows: Sequence[tuple[str, pa.RecordBatch]]) -> None:
        for name, batch in rows:
            for start in range(0, batch.num_rows, APPEND_ROWS):
                self.writers[name].write_arrow_batch(batch.slice(start, APPEND_ROWS))
        for name in {name for name, _ in rows}:
            await self.writers[name].flush()


@dataclass(frozen=True)
class FolderTarget:
    """Parquet files below a folder, which has one for each table."""

    folder: Path
    tick_s: float = FILE_TICK_S

    @asynccontextmanager
    async def open(self, names: Sequence[str]) -> AsyncIterator[Sink]:
        yield _FolderSink(self.folder)


@dataclass
class _FolderSink:
    folder: Path
    files: int = 0

    async def write(self, rows: Sequence[tuple[str, pa.RecordBatch]]) -> None:
        for name, batch in rows:
            self.files += 1
            hidden = self.folder / name / f".{self.files:08d}.parquet"
            pq.write_table(pa.Table.from_batches([batch]), hidden, compression="zstd")
            os.rename(hidden, hidden.with_name(hidden.name[1:]))


class Progress:
    """The writer's report, which both processes share."""

    def __init__(self) -> None:
        context = mp.get_context("spawn")
        self.began, self._behind = context.Value("d", 0.0), context.Value("d", 0.0)

    @property
    def behind_s(self) -> float:
        """Seconds by which the latest rows were late."""
        return float(self._behind.value)

    def begin(self) -> float:
        self.began.value = time.time()
        return float(self.began.value)

    def say_behind(self, seconds: float) -> None:
        self._behind.value = max(0.0, seconds)

    def wait_for_start(self) -> float:
        """The time of the first row. Raises SystemExit if the writer does not start."""
        end = time.monotonic() + START_S
        while not self.began.value:
            if time.monotonic() > end:
                raise SystemExit(f"the writer did not start within {START_S:.0f} s")
            time.sleep(0.05)
        return float(self.began.value)


@contextmanager
def writing(target: Target, order: Order) -> Iterator[Progress]:
    """The writer, until all is written. Raises SystemExit if it failed."""
    progress = Progress()
    process = mp.get_context("spawn").Process(target=_run, args=(target, order, progress))
    process.start()
    try:
        yield progress
        process.join()
    finally:
        process.terminate()
        process.join()
    if process.exitcode:
        raise SystemExit(f"the writer failed with status {process.exitcode}; its error, if it wrote one, is above")


def _run(target: Target, order: Order, progress: Progress) -> None:
    asyncio.run(_write(target, order, progress))
    os._exit(0)  # all rows are durable; a native client that crashes at the end of its process is no failure of the writer


async def _write(target: Target, order: Order, progress: Progress) -> None:
    [source] = FLIGHTS.batches(_DISTINCT_ROWS, Path())
    ticks = math.ceil(order.seconds / target.tick_s)
    small_ticks = max(1, round(SMALL_EVERY_S / target.tick_s))
    async with target.open([order.table, *order.small]) as sink:
        start, written = progress.begin(), 0
        for tick in range(1, ticks + 1):
            due = start + tick * target.tick_s
            await asyncio.sleep(max(0.0, due - time.time()))
            stop = min(order.rows, int(order.rate * tick * target.tick_s))
            batches = [(order.table, _rows(source, written, stop))] if stop > written else []
            turn = [name for number, name in enumerate(order.small) if number % small_ticks == tick % small_ticks]
            await sink.write([*batches, *((name, _rows(source, tick * SMALL_ROWS, (tick + 1) * SMALL_ROWS)) for name in turn)])
            written = max(stop, written)
            progress.say_behind(time.time() - due - target.tick_s)


def _rows(source: pa.RecordBatch, start: int, stop: int) -> pa.RecordBatch:
    """Rows with the ids `start` to `stop`; their other columns repeat those of `source`."""
    places = np.arange(start, stop) % source.num_rows
    return source.take(pa.array(places)).set_column(0, source.schema.field(0), pa.array(np.arange(start, stop)))
