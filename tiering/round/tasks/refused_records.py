"""Which record of a split cannot be written, after its writer or its reader failed."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from tiering.clock import RandomIds
from tiering.errors import BucketStopped, InvalidData, LakewardError
from tiering.model.refused_records import bucket_stopped, first_failing, offset_of, partition_stopped, text_of
from tiering.model.tables import OFFSET_COLUMN
from tiering.round.ports import SplitTask


@dataclass(frozen=True)
class Refusal:
    """A record that cannot be written. `offset`: the bucket's work ends there; of a row of a KV snapshot it is below the log split."""

    error: BucketStopped
    offset: int


def refusal_of_record(task: SplitTask, limit: int, error: BaseException) -> Refusal | None:
    """The record of the split, before `limit`, for which an attempt failed with `error`; None if no single record is the cause.

    An error that names no record, but may come from a value, is looked into: the records are written again, batch by batch, and those
    of the first batch that fails by halves. Nothing of that is kept.
    """
    split = task.split
    if split.partition_name is not None and _is_name_too_long(error):
        reason = f"the lake's storage takes no folder with a name as long as that of the partition ({error})"
        return Refusal(partition_stopped(split.table_path, split.bucket, split.partition_name, reason), split.starting_offset - 1)
    if not isinstance(error, BucketStopped):
        located = None
        with suppress(Exception):  # what went wrong before is the error of the split
            located = _located(task, limit, error) if _may_come_from_a_value(error) else None
        return None if located is None else Refusal(located, int(located.ids["offset"]))
    offset = offset_of(error)
    if offset is None:
        return Refusal(error, split.starting_offset - 1)
    return Refusal(error, offset) if split.starting_offset <= offset < limit else None


def _is_name_too_long(error: BaseException | None) -> bool:
    """Whether a file system refused a name for its length. Object stores have no such limit, so none is known beforehand."""
    while error is not None:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            return True
        error = error.__cause__ or error.__context__
    return False


def _may_come_from_a_value(error: BaseException) -> bool:
    """Whether a value may be the cause; what happens to storage, memory or the process says nothing of values."""
    return isinstance(error, InvalidData | ArithmeticError | LookupError | TypeError | ValueError | struct.error)


def _located(task: SplitTask, limit: int, error: BaseException) -> BucketStopped | None:
    for batch in _batches(task, limit):
        if _is_written(task, batch, 0, batch.num_rows):
            continue
        row = first_failing(batch.num_rows, partial(_is_written, task, batch))
        neighbour = row - 1 if row else row + 1
        if _is_written(task, batch, row, row + 1) or not _is_written(task, batch, neighbour, neighbour + 1):
            return None  # several records together are the cause, or no value at all
        record = batch.slice(row, 1)
        cause = error.message if isinstance(error, LakewardError) else f"{type(error).__name__}: {error}"
        reason = f"it cannot be written ({cause}): {text_of(record)}"
        table, offset = task.context.table, int(record.column(OFFSET_COLUMN)[0].as_py())
        return bucket_stopped(table.path, task.split.bucket, task.split.partition_name, offset, reason)
    return None


def _batches(task: SplitTask, limit: int) -> Iterator[pa.RecordBatch]:
    """Records of the split's log before `limit`, as far as they can be read."""
    with suppress(Exception):
        for batch in task.reader.read():
            offsets = batch.column(OFFSET_COLUMN).to_numpy()
            count = int((offsets < limit).sum())
            if count:
                yield batch.slice(0, count)
            if count < batch.num_rows:
                return


def _is_written(task: SplitTask, batch: pa.RecordBatch, start: int, stop: int) -> bool:
    """Whether a writer takes these rows. Its files are deleted; nothing that stands in the lake is looked at."""
    rows = batch.slice(start, stop - start)
    if not rows.num_rows:
        return True
    writer = task.factory.create_writer(replace(task.context, attempt_nonce=RandomIds().new_id(), base=b"", replaces=False))
    try:
        writer.write(rows)
        offsets = rows.column(OFFSET_COLUMN)
        writer.complete(int(offsets[0].as_py()), int(offsets[-1].as_py()) + 1)
    except Exception as error:
        if not _may_come_from_a_value(error) and not isinstance(error, BucketStopped):
            raise
        return False
    finally:
        writer.abort()
    return True
