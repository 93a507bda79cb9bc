"""Small rounds in the tierer's own process: their tasks side by side, each once, and none begun after a failure."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tiering.errors import DataCorrupt
from tiering.lake.base import WriteResult, WriterInitContext
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, TableInfo, TablePath, TableType
from tiering.round.ports import SplitTask, TaskOutcome, WorkLimits
from tiering.round.progress import RoundMeter
from tiering.round.tasks.inline_runner import SHARED_ROUND_RECORDS, InlineTaskRunner

PATH = TablePath("sales", "orders")
TABLE = TableInfo(1, PATH, TableType.LOG, pa.schema([("id", pa.int64())]), 8, datetime(2026, 1, 1, tzinfo=UTC))
LARGE = SHARED_ROUND_RECORDS
WAIT_S = 20.0


@dataclass
class Log:
    """A reader that first meets others, and then fails if it is to; `batches` of the same size."""

    split: TieringLogSplit
    meets: threading.Barrier | None = None
    fails: bool = False
    batches: int = 2
    threads: list[str] = field(default_factory=list)

    def read(self) -> Iterator[pa.RecordBatch]:
        self.threads.append(threading.current_thread().name)
        if self.meets is not None:
            self.meets.wait(WAIT_S)
        if self.fails:
            raise DataCorrupt("a damaged batch")
        size = self.split.records // self.batches
        for start in range(0, self.split.records, size):
            yield pa.record_batch({"id": np.arange(start, start + size), "__offset": np.arange(start, start + size)})


class Writer:
    """Factory and writer in one; counts rows."""

    def __init__(self) -> None:
        self.records = 0

    def create_writer(self, context: WriterInitContext) -> Writer:
        return Writer()

    def write(self, batch: pa.RecordBatch) -> None:
        self.records += batch.num_rows

    def complete(self, starting_offset: int, reached_offset: int) -> WriteResult:
        return WriteResult(BucketKey(None, 0), starting_offset, reached_offset, self.records, 1, 1, b"")

    def abort(self) -> None: ...


class BucketTask(SplitTask):
    """A task whose reader is a `Log`."""

    reader: Log


def task(bucket_id: int, records: int, **log: Any) -> BucketTask:
    split = TieringLogSplit(PATH, BucketKey(None, bucket_id), None, 0, records, records)
    context = WriterInitContext(TABLE, "uuid", split.bucket, None, "round", "")
    return BucketTask(Log(split, **log), split, Writer(), context)


def run(tasks: Sequence[SplitTask], threads: int) -> list[TaskOutcome]:
    meter = RoundMeter([task.split.records for task in tasks], lambda: 0, lambda progress: None)
    return list(InlineTaskRunner(threads).run("round", tasks, WorkLimits(60_000, lambda: False), meter))


def test_tasks_of_a_larger_round_run_side_by_side() -> None:
    meets = threading.Barrier(2)  # no task passes alone
    outcomes = run([task(bucket_id, LARGE, meets=meets) for bucket_id in range(4)], threads=2)
    assert [outcome.result.records for outcome in outcomes if outcome.result] == [LARGE] * 4


@pytest.mark.parametrize(("records", "threads"), [(10, 4), (LARGE, 1)])
def test_a_small_round_or_a_single_core_takes_no_threads(records: int, threads: int) -> None:
    tasks = [task(bucket_id, records) for bucket_id in range(3)]
    assert len(run(tasks, threads)) == 3
    assert {name for bucket in tasks for name in bucket.reader.threads} == {threading.current_thread().name}


def test_every_task_runs_once() -> None:
    tasks = [task(bucket_id, LARGE // 8) for bucket_id in range(40)]
    assert len(run(tasks, threads=4)) == 40
    assert [len(bucket.reader.threads) for bucket in tasks] == [1] * 40


def test_a_failure_ends_tasks_under_way_and_begins_no_others() -> None:
    meets = threading.Barrier(2)
    endless = 10_000_000
    failing = task(0, 2 * endless, meets=meets, fails=True)
    under_way = task(1, endless, meets=meets, batches=endless)
    waiting = task(2, LARGE)
    outcomes = run([failing, under_way, waiting], threads=2)
    assert [type(outcome.error) for outcome in outcomes if outcome.error] == [DataCorrupt]
    assert all(outcome.result.reached_offset < endless for outcome in outcomes if outcome.result)
    assert waiting.reader.threads == []
