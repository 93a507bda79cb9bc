"""Records of a primary-key table's log that its KV state cannot take, and what becomes of those that a person skips.

This version logs none; a log that an older one wrote may hold some. A bucket stands at its first one: writes to it and rounds
that would read it get `BucketStopped`, other buckets go on. `CALL sys.skip_record` leaves the record out for good, which means
the same to everyone, for the log stays the truth:

- whoever reads the log gets a change of nothing in its place: a `-U` of its key, which no reader of changelogs takes for a last
  change, without its nested values, the only ones that may be refused. Offsets keep their places;
- the KV state, and so every KV snapshot, is made from what is read that way;
- a lake that took the record in before anybody knew gets it out again: with the skip, in one transaction, the log gets a change
  that sets the key to what it is without the record (`-U`, `+U` with the present row, or `-D` where there is none);
- validation reads the same log, so a lake that has that last change is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.errors import BucketStopped
from tiering.model.refused_records import bucket_stopped, described
from tiering.model.tables import CHANGE_TYPE_COLUMN, BucketKey, ChangeType, TableInfo

REASON = "its rows cannot take the record there"
"""Why a bucket stands at a record."""


@dataclass(frozen=True)
class RefusedRecord:
    """A record that the KV state cannot take. `value` is its text, cut; `error` is DuckDB's message."""

    offset: int
    value: str
    error: str
    is_skipped: bool


def standing_at(records: Iterable[RefusedRecord]) -> RefusedRecord | None:
    """Returns the record at which a bucket stands; None if it goes on."""
    return next((record for record in records if not record.is_skipped), None)


def stopped(table: TableInfo, bucket: BucketKey, partition_name: str | None, record: RefusedRecord) -> BucketStopped:
    """Returns the error for every use of a bucket that stands."""
    return bucket_stopped(table.path, bucket, partition_name, record.offset, REASON, text_with_error(record), table_id=table.table_id)


def text_with_error(record: RefusedRecord) -> str:
    """Returns the record's text with DuckDB's message, which may name a value of it."""
    return described(record.value, record.error)


def changes_of_nothing(batch: pa.RecordBatch, positions: Sequence[int]) -> pa.RecordBatch:
    """Returns the same records, with those at `positions` turned into changes of nothing; positions outside of the batch are ignored."""
    inside = [position for position in positions if 0 <= position < batch.num_rows]
    if not inside:
        return batch
    chosen = np.zeros(batch.num_rows, dtype=bool)
    chosen[inside] = True
    columns = [
        _emptied(column, field, chosen) if field.name != CHANGE_TYPE_COLUMN else _unchanged(column, chosen)
        for column, field in zip(batch.columns, batch.schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _unchanged(kinds: Any, chosen: npt.NDArray[np.bool_]) -> pa.Array[Any]:
    changed: pa.Array[Any] = pa.array(np.where(chosen, np.int8(ChangeType.UPDATE_BEFORE), kinds.to_numpy()), kinds.type)
    return changed


def _emptied(column: Any, field: pa.Field[Any], chosen: npt.NDArray[np.bool_]) -> Any:
    """Returns the row without the values of nested types, the only ones that may be refused: NULL, or an empty value if NOT NULL."""
    if not pa.types.is_nested(field.type):
        return column
    if field.nullable:
        return column.take(pa.array(np.arange(len(column)), mask=chosen))
    blank = pa.array([{} if pa.types.is_struct(field.type) else []], field.type)
    places = np.where(chosen, len(column), np.arange(len(column)))
    return pa.concat_arrays([column, blank]).take(pa.array(places))
