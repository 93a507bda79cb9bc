"""The memory of a round does not grow with what it moves: batches come, are written, and go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering.cluster.embedded.log import split_reader
from tiering.cluster.log_writer import LogWriter
from tiering.lake.iceberg.writing import writer
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo

ROWS, FEW = 5_000, 8
TEXT = "x" * 200
APPEND_BYTES = ROWS * 216
ROW_GROUP_BYTES = 2 << 20


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeWorld]:
    """Batches and row groups are small, so that a table of many is small too."""
    monkeypatch.setattr(split_reader, "TARGET_BATCH_BYTES", 1 << 20)
    monkeypatch.setattr(writer, "ROW_GROUP_BYTES", ROW_GROUP_BYTES)
    lake_world = LakeWorld(tmp_path)
    yield lake_world
    lake_world.close()


@contextmanager
def counted() -> Iterator[pa.MemoryPool]:
    """Whatever Arrow allocates within."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(before)


def append(world: LakeWorld, table: TableInfo, appends: int) -> None:
    log = LogWriter(world.storage, table.path, f"writer-{appends}")
    for number in range(appends):
        ids = range(number * ROWS, (number + 1) * ROWS)
        log.append(pa.table({"id": ids, "text": [f"{number} {TEXT}" for number in ids]}, schema=SCHEMA))


def peak(world: LakeWorld, table: TableInfo) -> int:
    """Bytes at the worst moment of one round."""
    world.due()
    with counted() as pool:
        assert world.begin(table).end().state is RoundState.SUCCEEDED
        most: int = pool.max_memory()
    return most


def test_a_round_over_six_times_the_rows_takes_no_more_memory(world: LakeWorld) -> None:
    table = world.table("orders", buckets=1)
    append(world, table, FEW)
    few = peak(world, table)
    append(world, table, 6 * FEW)
    many = peak(world, table)
    assert world.view(table).records == 7 * FEW * ROWS
    assert few > ROW_GROUP_BYTES, "the counter counts what is written"
    assert many < few * 1.2, (few, many)
    assert many < 6 * FEW * APPEND_BYTES / 2
