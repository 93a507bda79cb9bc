"""Puts aside the records of a split that the lake cannot hold, so that its other rows are written (`lake.dead_letters`).

A writer that refuses a record of a batch has taken nothing of the batch, so the batch is written again without that record. A delete is
never put aside, because the lake would keep the row of its key for ever; and a row of a KV snapshot has no offset. A bucket stops before
both, whatever the option says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from tiering.cluster.capabilities import ResumableReader
from tiering.errors import BucketStopped
from tiering.lake.base import LakeWriter
from tiering.lake.dead_letters.letter import DeadLetter, dead_letter_of
from tiering.model.refused_records import RECORD_ID, not_put_aside, offset_of, reason_of
from tiering.model.tables import CHANGE_TYPE_COLUMN, OFFSET_COLUMN, ChangeType, TableType
from tiering.round.ports import SplitTask

LIMIT_REACHED = (
    "; the option 'table.datalake.on-bad-record' puts such records aside, but as many as 'table.datalake.dead-letters-per-hour' allows "
    "were put aside within the last hour"
)
LIMIT_HINT = (
    " Or first see in sys.dead_letters whether a producer is broken. The bucket continues by itself after the hour, and at once after CALL "
    "sys.set_table_option('{path}', 'table.datalake.dead-letters-per-hour', '1000')."
)
UNDECODED = "undecoded"
"""The only field of `DeadLetter.record_json` of a record that the reader cannot decode: as much as its error tells. `raw` is empty."""
DELETE_STAYS = "; a delete is never put aside, because the lake would keep the row of its key"
DELETE_HINT = " Then delete it again, because the lake still has the row of its key."


def may_put_aside(task: SplitTask, count: int) -> bool:
    """Returns whether a task that has put `count` records aside may put another one aside."""
    return task.dead_letters is not None and count < task.dead_letters


class RecordsAside:
    """The records that one attempt at a split puts aside. `refused`: records that a writer refuses without naming them."""

    def __init__(self, task: SplitTask, refused: Mapping[int, BucketStopped]) -> None:
        self._task = task
        self._refused = refused
        self.letters: list[DeadLetter] = []

    def write(self, writer: LakeWriter, batch: pa.RecordBatch) -> None:
        """Writes the records of a batch, except for those that are put aside. Raises BucketStopped before a record that cannot be."""
        if self._task.dead_letters is None:
            writer.write(batch)
            return
        offsets = batch.column(OFFSET_COLUMN).to_numpy()
        for offset in np.intersect1d(offsets, list(self._refused)).tolist():
            batch = self._without(batch, self._refused[offset])
        while batch.num_rows:
            try:
                writer.write(batch)
                return
            except BucketStopped as error:
                batch = self._without(batch, error)

    def unreadable(self, error: BucketStopped, limit: int) -> int | None:
        """Puts a record aside that the reader cannot decode, and returns its offset; None if it cannot be put aside.

        Only a log table's record: any other record may be a delete, which its change type would tell.
        """
        task, offset = self._task, offset_of(error)
        is_possible = task.context.table.table_type is TableType.LOG and isinstance(task.reader, ResumableReader)
        if not is_possible or offset is None or offset >= limit:
            return None
        if not may_put_aside(task, len(self.letters)):
            if task.dead_letters is not None:
                self._limited(error)
            return None
        self.letters.append(
            DeadLetter(
                bucket=task.split.bucket,
                partition_name=task.split.partition_name,
                offset=offset,
                change_type=ChangeType.APPEND.symbol,
                record_time_us=None,
                column=error.ids.get("column"),
                reason=reason_of(error),
                record_json=json.dumps({UNDECODED: error.ids.get(RECORD_ID, "")}, ensure_ascii=False),
                raw=b"",
            )
        )
        return offset

    def _without(self, batch: pa.RecordBatch, error: BucketStopped) -> pa.RecordBatch:
        """Puts the record of `error` aside, and returns the batch without it. Raises `error` if the record cannot be put aside."""
        offset = offset_of(error)
        places = np.flatnonzero(batch.column(OFFSET_COLUMN).to_numpy() == offset).tolist()
        if offset is None or len(places) != 1:
            raise error
        row = batch.slice(places[0], 1)
        if _is_delete(row):
            raise not_put_aside(error, DELETE_STAYS, DELETE_HINT)
        if not may_put_aside(self._task, len(self.letters)):
            raise self._limited(error)
        split = self._task.split
        self.letters.append(dead_letter_of(row, split.bucket, split.partition_name, error.ids.get("column"), reason_of(error)))
        return batch.take(np.delete(np.arange(batch.num_rows), places))

    def _limited(self, error: BucketStopped) -> BucketStopped:
        return not_put_aside(error, LIMIT_REACHED, LIMIT_HINT.format(path=self._task.split.table_path))


def _is_delete(row: pa.RecordBatch) -> bool:
    return CHANGE_TYPE_COLUMN in row.schema.names and row.column(CHANGE_TYPE_COLUMN)[0].as_py() == ChangeType.DELETE
