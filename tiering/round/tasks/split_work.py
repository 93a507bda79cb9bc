"""One split's work, on an executor or inline: scan -> lake writer -> write result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from tiering import crash_points
from tiering.clock import RandomIds
from tiering.cluster.base import SplitReader
from tiering.cluster.capabilities import CountingReader
from tiering.errors import LakeUnavailable, LakewardError, RoundFailed
from tiering.lake.base import LakeWriter, WriteResult
from tiering.model.rounds import Phase
from tiering.model.tables import CHANGE_TYPE_COLUMN, OFFSET_COLUMN, ChangeType
from tiering.round.ports import SplitTask, TaskOutcome

Advance = Callable[[int, int | None], None]
"""Gets the records read so far, and the next offset of the log to be read; None within a KV snapshot."""

_MEMORY_HINT = "Give the executors, or the tierer for small rounds, more memory. The round is tried again."


def run_split(task: SplitTask, stop: Callable[[], bool], advance: Advance = lambda records, offset: None) -> TaskOutcome:
    """Reads the split to its end, or until `stop` says so between two batches. `advance` hears of every batch that was written.

    The first split of a bucket reads at least one batch whatever `stop` says: every round makes some progress. A KV snapshot is
    read whole or, when `stop` says so before it begins, not at all: then the outcome has neither result nor error. That of the round's
    first task is always read: a bucket that begins with one makes no progress before.

    The result's reached offset is the end of the split or, after an early stop, that of the last record written plus one: a prefix.
    Never raises: the error and its phase are in the outcome, and the files of a failed split are deleted.
    """
    if task.snapshot is not None and not task.is_first and stop():
        return TaskOutcome(None)
    work, started = _SplitWork(task, advance), time.monotonic()
    try:
        outcome = TaskOutcome(work.run(stop))
    except BaseException as error:  # an executor's failure has to reach the driver as data, a library's panic too
        work.abort()
        outcome = TaskOutcome(None, as_lakeward_error(error), work.phase)
    work_ms = (time.monotonic() - started) * 1_000
    return replace(outcome, read_ms=work.read_seconds * 1_000, work_ms=work_ms, bytes_read=work.bytes_read)


class _SplitWork:
    """One attempt at one split."""

    def __init__(self, task: SplitTask, advance: Advance) -> None:
        self._task = task
        self._advance = advance
        self._records = 0
        self._writer: LakeWriter | None = None
        self.phase = Phase.WRITE
        self.read_seconds = 0.0
        self.bytes_read = 0

    def run(self, stop: Callable[[], bool]) -> WriteResult:
        task = self._task
        writer = self._writer = task.factory.create_writer(replace(task.context, attempt_nonce=RandomIds().new_id()))
        if task.snapshot is not None:
            batches = self._batches(task.snapshot)
            while (batch := self._next(batches)) is not None:
                self._write(writer, batch, None)
        reached = self._read_log(writer, stop)
        return writer.complete(task.split.starting_offset, reached)

    def _read_log(self, writer: LakeWriter, stop: Callable[[], bool]) -> int:
        split, batches = self._task.split, self._batches(self._task.reader)
        reached, may_stop = split.starting_offset, self._task.rank > 0 or self._task.snapshot is not None
        while reached < split.stopping_offset and not (may_stop and stop()):
            batch = self._next(batches)
            if batch is None:
                return split.stopping_offset  # a reader that ends without an error has read the whole range
            reached = _last_offset(batch, reached - 1) + 1
            self._write(writer, batch, reached)
            may_stop = not _ends_within_update(batch)
            crash_points.reach(crash_points.IN_SPLIT)
        return reached

    def _batches(self, reader: SplitReader) -> Iterator[pa.RecordBatch]:
        return reader.read_counted(self._count) if isinstance(reader, CountingReader) else reader.read()

    def _count(self, size_bytes: int) -> None:
        self.bytes_read += size_bytes

    def _write(self, writer: LakeWriter, batch: pa.RecordBatch, reached: int | None) -> None:
        writer.write(batch)
        self._records += batch.num_rows
        self._advance(self._records, reached)

    def _next(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        self.phase, started = Phase.READ, time.monotonic()
        batch = next(batches, None)
        self.read_seconds += time.monotonic() - started
        self.phase = Phase.WRITE
        return batch

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()


def _last_offset(batch: pa.RecordBatch, before: int) -> int:
    """That of the batch's last record; `before` if it has none. Offsets may have gaps, so that rows are not counted."""
    return int(batch.column(OFFSET_COLUMN)[-1].as_py()) if batch.num_rows else before


def _ends_within_update(batch: pa.RecordBatch) -> bool:
    """Whether the last record is a `-U` whose `+U` comes next: a round never stops between the two."""
    index = batch.schema.get_field_index(CHANGE_TYPE_COLUMN)
    return index >= 0 and batch.num_rows > 0 and bool(batch.column(index)[-1].as_py() == ChangeType.UPDATE_BEFORE)


def as_lakeward_error(error: BaseException) -> LakewardError:
    """Returns `error` itself if it is of our tree, else wrapped with its class name kept."""
    if isinstance(error, LakewardError):
        return error
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError):
        return LakeUnavailable(text, hint="Check the storage: is it there, writable and not full?")
    hint = _MEMORY_HINT if isinstance(error, MemoryError) else None
    return RoundFailed(text, cause_class=type(error).__name__, hint=hint)


def deadline(budget_ms: int) -> Callable[[], bool]:
    """Returns a stop signal that fires `budget_ms` from now."""
    end = time.monotonic() + budget_ms / 1_000
    return lambda: time.monotonic() >= end
