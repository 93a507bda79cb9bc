"""Finds the record of a split that cannot be written, after its writer or its reader failed."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from urllib.parse import unquote_plus

import numpy as np
import pyarrow as pa

from tiering.clock import RandomIds
from tiering.errors import BucketStopped, LakewardError
from tiering.model.refused_records import (
    RECORD_ID,
    bucket_stopped,
    described,
    first_failing,
    may_come_from_a_value,
    offset_of,
    partition_stopped,
    text_of,
)
from tiering.model.tables import CHANGE_TYPE_COLUMN, OFFSET_COLUMN, ChangeType
from tiering.round.ports import SplitTask


@dataclass(frozen=True)
class Refusal:
    """A record that cannot be written. `offset` is where the bucket's work ends. For a row of a KV snapshot it is below the start of the
    log split.

    `has_control`: another record was written alone. `is_unverified`: no other record was written, so the record may be blamed only
    after one was.
    """

    error: BucketStopped
    offset: int
    has_control: bool = False
    is_unverified: bool = False


def refusal_of_record(task: SplitTask, limit: int, error: BaseException, aside: Collection[int] = ()) -> Refusal | None:
    """Returns the record of the split, before `limit`, for which an attempt failed with `error`; None if no single record is the cause.

    If the error names no record but may be caused by a value, the records are written again: batch by batch, and the first batch that fails
    by bisection. None of these files is kept. `aside`: the offsets of records that are put aside already.
    """
    split = task.split
    if split.partition_name is not None and _is_name_too_long(error, task.context.table.partition_keys):
        reason = f"the lake's storage does not accept a folder name as long as that of the partition ({error})"
        return Refusal(partition_stopped(split.table_path, split.bucket, split.partition_name, reason), split.starting_offset - 1)
    if not isinstance(error, BucketStopped):
        located = None
        with suppress(Exception):  # the original error is the error of the split
            located = _located(task, limit, error, aside) if may_come_from_a_value(error) else None
        return located
    offset = offset_of(error)
    if offset is None:
        return Refusal(error, split.starting_offset - 1)
    return Refusal(error, offset) if split.starting_offset <= offset < limit else None


def _is_name_too_long(error: BaseException | None, partition_keys: Sequence[str]) -> bool:
    """Returns whether a file system refused a path because the folder name of its partition is too long.

    If the whole path is too long, or the name of the warehouse or of a file, the partition is not the cause. Object stores have no such
    limit, so no limit can be checked in advance.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            return _has_its_longest_name_from_a_partition(str(error.filename or ""), partition_keys)
        error = error.__cause__ or error.__context__
    return False


def _has_its_longest_name_from_a_partition(path: str, partition_keys: Sequence[str]) -> bool:
    """Returns whether the name of a folder `column=value` is the reason why a file system refuses the path."""
    if len(os.fsencode(path)) >= os.pathconf("/", "PC_PATH_MAX"):
        return False
    longest = max(path.split("/"), key=lambda name: len(os.fsencode(name)))
    return unquote_plus(longest).startswith(tuple(f"{column}=" for column in partition_keys))


def _located(task: SplitTask, limit: int, error: BaseException, aside: Collection[int]) -> Refusal | None:
    """Returns the first record that cannot be written; None if no single record is the cause.

    A record is blamed only if a control exists: another record that can be written alone. Without one the refusal is doubtful: the cause
    may as well be the storage, a library or an option, and the statement in the error would skip a good record.
    """
    before = None
    batches = (_without(batch, aside) for batch in _batches(task, limit))
    for batch in batches:
        if _is_written(task, batch, 0, batch.num_rows):
            before = _last_added_row(batch) or before
            continue
        row = first_failing(batch.num_rows, partial(_is_written, task, batch))
        record = batch.slice(row, 1)
        before, behind = _last_added_row(batch.slice(0, row)) or before, batch.slice(row + 1)
        if _is_written(task, record, 0, 1):
            return None  # several records together are the cause, or the cause is not a value
        has_control = _has_control(task, before, behind, batches)
        if _is_written(task, record, 0, 1):
            return None
        name, cause = type(error).__name__, str(error)
        if isinstance(error, LakewardError):
            name, cause = error.error_class, error.ids.get(RECORD_ID) or error.message
        record_text = described(text_of(record), cause)  # the cause may contain a value of the record
        table, offset = task.context.table, int(record.column(OFFSET_COLUMN)[0].as_py())
        reason, split = f"writing it ends with {name}", task.split
        stopped = bucket_stopped(table.path, split.bucket, split.partition_name, offset, reason, record_text)
        return Refusal(stopped, offset, has_control=has_control, is_unverified=not has_control)
    return None


def _without(batch: pa.RecordBatch, aside: Collection[int]) -> pa.RecordBatch:
    """Returns the batch without the records at these offsets."""
    if not aside:
        return batch
    return batch.filter(pa.array(~np.isin(batch.column(OFFSET_COLUMN).to_numpy(), list(aside))))


def _has_control(task: SplitTask, before: pa.RecordBatch | None, behind: pa.RecordBatch, batches: Iterator[pa.RecordBatch]) -> bool:
    """Returns whether a record before or after the refused one can be written alone; records of the bucket's log before the split are tried
    too.
    """
    candidates = chain([before], _ends_of(behind), _ends_of(next(batches, None)), _rows_before(task))
    return any(row is not None and _is_written(task, row, 0, 1) for row in candidates)


def _ends_of(batch: pa.RecordBatch | None) -> Iterator[pa.RecordBatch | None]:
    """Yields the first and the last record of a batch that add a row."""
    if batch is not None and len(places := _added_rows(batch)):
        yield batch.slice(places[0], 1)
        yield batch.slice(places[-1], 1)


def _rows_before(task: SplitTask) -> Iterator[pa.RecordBatch | None]:
    """Yields the last record before the split that adds a row, if the log still has one."""
    if task.records_before is not None:
        for batch in task.records_before.read():
            yield _last_added_row(batch)


def _last_added_row(batch: pa.RecordBatch) -> pa.RecordBatch | None:
    places = _added_rows(batch)
    return batch.slice(places[-1], 1) if len(places) else None


def _added_rows(batch: pa.RecordBatch) -> Sequence[int]:
    """Returns the places of the records that add a row. For other records, such as deletes, a writer may write nothing, which would prove
    nothing.
    """
    if CHANGE_TYPE_COLUMN not in batch.schema.names:
        return range(batch.num_rows)
    kinds = batch.column(CHANGE_TYPE_COLUMN).to_numpy()
    places: list[int] = np.flatnonzero(~np.isin(kinds, (ChangeType.UPDATE_BEFORE, ChangeType.DELETE))).tolist()
    return places


def _batches(task: SplitTask, limit: int) -> Iterator[pa.RecordBatch]:
    """Yields the records of the split's log before `limit`, as far as they can be read."""
    with suppress(Exception):
        for batch in task.reader.read():
            offsets = batch.column(OFFSET_COLUMN).to_numpy()
            count = int((offsets < limit).sum())
            if count:
                yield batch.slice(0, count)
            if count < batch.num_rows:
                return


def _is_written(task: SplitTask, batch: pa.RecordBatch, start: int, stop: int) -> bool:
    """Returns whether a writer accepts these rows. Its files are deleted; the existing files of the lake are not read."""
    rows = batch.slice(start, stop - start)
    if not rows.num_rows:
        return True
    writer = task.factory.create_writer(replace(task.context, attempt_nonce=RandomIds().new_id(), base=b"", replaces=False))
    try:
        writer.write(rows)
        offsets = rows.column(OFFSET_COLUMN)
        writer.complete(int(offsets[0].as_py()), int(offsets[-1].as_py()) + 1)
    except Exception as error:
        if not may_come_from_a_value(error) and not isinstance(error, BucketStopped):
            raise
        return False
    finally:
        writer.abort()
    return True
