"""Records of a primary-key table's log that its KV state cannot accept, and the effects of skipping them.

This version never logs such a record, but a log of an older version may contain some. A bucket is stopped at its first one: writes to it
and rounds that would read it get `BucketStopped`; other buckets continue. `CALL sys.skip_record` leaves out the record permanently. All
readers see the same result, because the log remains the source of truth:

- A reader of the log gets an empty change in its place: a `-U` of its key, which no reader of changelogs treats as a last change, without
  its nested values, the only ones that can be refused. Offsets stay unchanged.
- The KV state, and so every KV snapshot, is built from the log in this form.
- For a lake that already contains the record, the log gets a change in the same transaction as the skip. The change sets the key to its
  value without the record (`-U`, `+U` with the present row, or `-D` if there is none).
- Validation reads the same log, so a lake that has this last change is valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sqlalchemy as sa

from tiering.cluster.embedded.metadata.database import bucket_columns, bucket_key, in_bucket, refused_records
from tiering.errors import BucketStopped
from tiering.model.refused_records import bucket_stopped, described
from tiering.model.tables import CHANGE_TYPE_COLUMN, BucketKey, ChangeType, TableInfo

REASON = "its rows cannot take the record there"
"""Why a bucket is stopped at a record, for error messages."""


@dataclass(frozen=True)
class RefusedRecord:
    """A record that the KV state cannot accept. `value` is its shortened text; `error` is DuckDB's message."""

    offset: int
    value: str
    error: str
    is_skipped: bool


def blocking_record(records: Iterable[RefusedRecord]) -> RefusedRecord | None:
    """Returns the record at which a bucket is stopped; None if it is not stopped."""
    return next((record for record in records if not record.is_skipped), None)


def stopped(table: TableInfo, bucket: BucketKey, partition_name: str | None, record: RefusedRecord) -> BucketStopped:
    """Returns the error for every use of a stopped bucket."""
    place = table.path, bucket, partition_name, record.offset
    return bucket_stopped(*place, REASON, text_with_error(record), can_be_put_aside=False, table_id=table.table_id)


def text_with_error(record: RefusedRecord) -> str:
    """Returns the record's text with DuckDB's message, which may contain a value of the record."""
    return described(record.value, record.error)


def changes_of_nothing(batch: pa.RecordBatch, positions: Sequence[int]) -> pa.RecordBatch:
    """Returns the same records, with those at `positions` turned into empty changes; positions outside of the batch are ignored."""
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
    """Returns the column without the chosen values if its type is nested, because only these can be refused: NULL, or an empty value if NOT
    NULL.
    """
    if not pa.types.is_nested(field.type):
        return column
    if field.nullable:
        return column.take(pa.array(np.arange(len(column)), mask=chosen))
    blank = pa.array([{} if pa.types.is_struct(field.type) else []], field.type)
    places = np.where(chosen, len(column), np.arange(len(column)))
    return pa.concat_arrays([column, blank]).take(pa.array(places))


def refused_of_table(connection: sa.Connection, table_id: int, bucket: BucketKey | None = None) -> Mapping[BucketKey, list[RefusedRecord]]:
    """Returns the refused records of a table, or of one bucket, by bucket and in the order of their offsets."""
    condition = refused_records.c.table_id == table_id if bucket is None else in_bucket(refused_records, table_id, bucket)
    refused: dict[BucketKey, list[RefusedRecord]] = {}
    for row in connection.execute(sa.select(refused_records).where(condition).order_by(refused_records.c.offset)):
        record = RefusedRecord(row.offset, row.value, row.error, row.skipped_us is not None)
        refused.setdefault(bucket_key(row.partition_id, row.bucket_id), []).append(record)
    return refused


def insert_refused(connection: sa.Connection, table_id: int, bucket: BucketKey, record: RefusedRecord, now_us: int) -> None:
    """Records the record at which a bucket is stopped."""
    connection.execute(
        sa.insert(refused_records).values(
            **bucket_columns(table_id, bucket),
            offset=record.offset,
            value=record.value,
            error=record.error,
            refused_us=now_us,
        )
    )


def mark_skipped(
    connection: sa.Connection, table_id: int, bucket: BucketKey, offset: int, caller: str, reason: str | None, now_us: int
) -> None:
    """Marks the record as skipped: readers leave it out from now on."""
    condition = in_bucket(refused_records, table_id, bucket) & (refused_records.c.offset == offset)
    connection.execute(sa.update(refused_records).where(condition).values(skipped_us=now_us, skipped_by=caller, reason=reason))
