"""The work of one split, on an executor or inline: scan -> lake writer -> write result."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tiering import crash_points
from tiering.clock import RandomIds
from tiering.cluster.base import SplitReader
from tiering.cluster.capabilities import CountingReader, ResumableReader
from tiering.errors import BucketStopped, LakeUnavailable, LakewardError, RoundFailed
from tiering.lake.base import LakeWriter, WriteResult
from tiering.lake.outside_errors import describe
from tiering.model.refused_records import RECORD_ID, offset_of
from tiering.model.rounds import Phase
from tiering.model.tables import CHANGE_TYPE_COLUMN, OFFSET_COLUMN, ChangeType
from tiering.round.ports import SplitTask, TaskOutcome
from tiering.round.tasks.records_aside import RecordsAside, may_put_aside
from tiering.round.tasks.refused_records import refusal_of_record

Advance = Callable[[int, int | None], None]
"""Called with the number of records read so far, and the next offset of the log to read; None within a KV snapshot."""

_MEMORY_HINT = "Give the executors, or the tierer for small rounds, more memory. The round is retried."


def run_split(task: SplitTask, stop: Callable[[], bool], advance: Advance = lambda records, offset: None) -> TaskOutcome:
    """Reads the split to its end, or until `stop` returns True between two batches. `advance` is called after each written batch.

    The first split of a bucket reads at least one batch whatever `stop` returns, so that every round makes some progress. A KV snapshot is
    read as a whole or, if `stop` returns True before it begins, not at all: then the outcome has neither result nor error. The snapshot of
    the round's first task is always read, because a bucket that begins with a snapshot makes no progress without it.

    The result's reached offset is the end of the split or, after an early stop, the offset of the last written record plus one: a prefix.
    If a record cannot be written, it is put aside, or the split is run again to end before it (`records_aside`). The outcome then has the
    prefix, if there is one, and the record, with a doubt if no other row of the bucket was written. Never raises: the error and its phase
    are in the outcome, and the files of a failed split are deleted.
    """
    if task.snapshot is not None and not task.is_first and stop():
        return TaskOutcome(None)
    started, attempts = time.monotonic(), _Attempts(task, stop, advance)
    outcome = attempts.outcome()
    work_ms = (time.monotonic() - started) * 1_000
    return replace(outcome, read_ms=attempts.read_seconds * 1_000, work_ms=work_ms, bytes_read=attempts.bytes_read)


class _EndsWithinUpdate(Exception):
    """The records before a limit end with a `-U`, and its `+U` is behind the limit. A round never stops between the two."""


class _Attempts:
    """Attempts at one split. After an attempt that met a record which cannot be written, the next one ends before that record."""

    def __init__(self, task: SplitTask, stop: Callable[[], bool], advance: Advance) -> None:
        self._task = task
        self._stop = stop
        self._advance = advance
        self._limit = task.split.stopping_offset
        self._stopped: BucketStopped | None = None
        self._suspected_error: LakewardError | None = None
        self._has_control = False
        self._refused: dict[int, BucketStopped] = {}
        """Records that were found by writing the split again, and that the next attempt puts aside."""
        self._phase = Phase.WRITE
        self.read_seconds = 0.0
        self.bytes_read = 0

    def outcome(self) -> TaskOutcome:
        """Returns the outcome of the first attempt without such a record; each attempt ends earlier than the one before it."""
        while self._is_anything_left:
            outcome = self._attempt()
            if outcome is not None:
                return self._with_stop(outcome)
        return self._with_stop(TaskOutcome(None))

    def _with_stop(self, outcome: TaskOutcome) -> TaskOutcome:
        """Returns the outcome with the record at which the split stopped. Rows of the prefix resolve the doubt about the record, and so do
        rows of a KV snapshot.
        """
        phase = outcome.phase if outcome.error is not None else self._phase
        suspected_error = None if outcome.result is not None and outcome.result.records else self._suspected_error
        return replace(outcome, stopped=self._stopped, phase=phase, suspected_error=suspected_error, has_control=self._has_control)

    @property
    def _is_anything_left(self) -> bool:
        """Returns whether another attempt has anything to write. A KV snapshot is written even if no record of the log follows it; a split
        without records always has a snapshot.
        """
        start = self._task.split.starting_offset
        return self._stopped is None or self._limit > start or (self._task.snapshot is not None and self._limit == start)

    def _attempt(self) -> TaskOutcome | None:
        """Makes one attempt; returns None if the limit was lowered and another attempt has to follow."""
        work = _SplitWork(self._task, self._advance, self._limit, self._refused)
        try:
            return TaskOutcome(work.run(self._stop))
        except _EndsWithinUpdate:
            work.abort()
            self._limit -= 1
            return None
        except BaseException as error:  # an executor's failure, even a library's panic, has to reach the driver as data
            work.abort()
            return self._failed(error, work.phase, work.aside)
        finally:
            self.read_seconds += work.read_seconds
            self.bytes_read += work.bytes_read

    def _failed(self, error: BaseException, phase: Phase, aside: Collection[int]) -> TaskOutcome | None:
        refusal = refusal_of_record(self._task, self._limit, error, aside)
        if refusal is None:
            return TaskOutcome(None, self._without_values(error), phase=phase)
        is_unnamed = not isinstance(error, BucketStopped) and refusal.offset not in self._refused
        if is_unnamed and refusal.has_control and may_put_aside(self._task, len(self._refused)):
            self._refused[refusal.offset] = refusal.error
            return None
        self._stopped, self._phase = refusal.error, phase
        self._suspected_error = self._without_values(error) if refusal.is_unverified else None
        self._has_control = self._has_control or refusal.has_control
        self._limit = refusal.offset
        return None

    def _without_values(self, error: BaseException) -> LakewardError:
        """Returns the error without values of rows, because every user who may describe the table can read it. Arrow's text, which may
        contain a value, goes into a field for callers with SELECT.
        """
        failure = as_lakeward_error(error)
        if isinstance(error, pa.ArrowException) and not isinstance(error, MemoryError):
            text, name = describe(error), type(error).__name__
            failure = RoundFailed(f"{name} while rows were read or written", cause_class=name, **{RECORD_ID: text})
        if RECORD_ID in failure.ids:
            failure.ids.setdefault("bucket", str(self._task.split.bucket))
        return failure


class _SplitWork:
    """One attempt at one split."""

    def __init__(self, task: SplitTask, advance: Advance, limit: int, refused: Mapping[int, BucketStopped]) -> None:
        self._task = task
        self._advance = advance
        self._limit = limit
        """Records from this offset on are not read."""
        self._aside = RecordsAside(task, refused)
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
        return replace(writer.complete(task.split.starting_offset, reached), dead_letters=tuple(self._aside.letters))

    def _read_log(self, writer: LakeWriter, stop: Callable[[], bool]) -> int:
        split, batches = self._task.split, self._batches(self._task.reader)
        reached, may_stop = split.starting_offset, self._task.rank > 0 or self._task.snapshot is not None
        while reached < self._limit and not (may_stop and stop()):
            try:
                batch = self._next(batches)
            except BucketStopped as error:
                if (offset := self._aside.unreadable(error, self._limit)) is not None:
                    reached, batches = offset + 1, self._batches_from(offset + 1)
                    continue
                if self._limit == split.stopping_offset or (offset_of(error) or 0) < self._limit:
                    raise
                return reached  # no record lies between the last record that was read and the record that cannot be read
            if batch is None:
                return self._limit  # a reader that ends without an error has read the whole range
            batch, reached = self._before_limit(batch, reached)
            self._write(writer, batch, reached)
            may_stop = not _ends_within_update(batch)
            if not may_stop and reached == self._limit < split.stopping_offset:
                raise _EndsWithinUpdate
            crash_points.reach(crash_points.IN_SPLIT)
        return reached

    def _before_limit(self, batch: pa.RecordBatch, before: int) -> tuple[pa.RecordBatch, int]:
        """Returns the records of the batch before the limit, and the offset reached with them. Offsets may have gaps."""
        reached = _last_offset(batch, before - 1) + 1
        if reached <= self._limit:
            return batch, reached
        count = int(np.searchsorted(batch.column(OFFSET_COLUMN).to_numpy(), self._limit))
        return batch.slice(0, count), self._limit

    def _batches(self, reader: SplitReader) -> Iterator[pa.RecordBatch]:
        return reader.read_counted(self._count) if isinstance(reader, CountingReader) else reader.read()

    def _batches_from(self, offset: int) -> Iterator[pa.RecordBatch]:
        reader = self._task.reader
        if offset == self._task.split.stopping_offset or not isinstance(reader, ResumableReader):
            return iter(())
        return self._batches(reader.from_offset(offset))

    def _count(self, size_bytes: int) -> None:
        self.bytes_read += size_bytes

    def _write(self, writer: LakeWriter, batch: pa.RecordBatch, reached: int | None) -> None:
        self._aside.write(writer, batch)
        self._records += batch.num_rows
        self._advance(self._records, reached)

    def _next(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        self.phase, started = Phase.READ, time.monotonic()
        batch = next(batches, None)
        self.read_seconds += time.monotonic() - started
        self.phase = Phase.WRITE
        return batch

    @property
    def aside(self) -> Collection[int]:
        """The offsets of the records that this attempt has put aside."""
        return {letter.offset for letter in self._aside.letters}

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()


def _last_offset(batch: pa.RecordBatch, before: int) -> int:
    """Returns the offset of the batch's last record; `before` if it has none. Offsets may have gaps, so rows cannot be counted instead."""
    return int(batch.column(OFFSET_COLUMN)[-1].as_py()) if batch.num_rows else before


def _ends_within_update(batch: pa.RecordBatch) -> bool:
    """Returns whether the last record is a `-U` whose `+U` comes next: a round never stops between the two."""
    index = batch.schema.get_field_index(CHANGE_TYPE_COLUMN)
    return index >= 0 and batch.num_rows > 0 and bool(batch.column(index)[-1].as_py() == ChangeType.UPDATE_BEFORE)


def as_lakeward_error(error: BaseException) -> LakewardError:
    """Returns `error` itself if it is a LakewardError, otherwise wraps it with its class name."""
    if isinstance(error, LakewardError):
        return error
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError):
        return LakeUnavailable(text, hint="Check that the storage is available, writable and not full.")
    hint = _MEMORY_HINT if isinstance(error, MemoryError) else None
    return RoundFailed(text, cause_class=type(error).__name__, hint=hint)


def deadline(budget_ms: int) -> Callable[[], bool]:
    """Returns a stop signal that fires `budget_ms` from now."""
    end = time.monotonic() + budget_ms / 1_000
    return lambda: time.monotonic() >= end
