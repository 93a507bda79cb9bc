"""A record that cannot be written: its value as text, its place in a batch, and the error of the bucket that stops before it.

The message of such an error is for whoever may know of the table, so it never holds a value of a row. The record's text is a field of the
error (`RECORD_ID`), which is shown to callers with SELECT on the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tiering.errors import BucketStopped
from tiering.model.tables import CHANGE_TYPE_COLUMN, OFFSET_COLUMN, SYSTEM_COLUMN_FIELDS, BucketKey, TablePath

RECORD_ID = "record_text"
"""The id of an error with the text of its record, and with what a library says of a value in it."""
MAX_VALUE_CHARACTERS = 500
"""Of a record's text in errors, events and answers."""
_BEFORE_RECORD = (", in the row ", " there, ", " cannot be written (")
"""What stands before the record in messages of older versions."""
_NOT_OF_THE_ROW = {CHANGE_TYPE_COLUMN, *(field.name for field in SYSTEM_COLUMN_FIELDS)}


class UnwritableRow(Exception):
    """A row of a batch that a table cannot hold. `column` is its full path, such as `tags.element`.

    `reason` names no value; `detail` may, and goes where the text of the record goes.
    """

    def __init__(self, row: int, column: str, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.row = row
        self.column = column
        self.reason = reason
        self.detail = detail


def bucket_stopped(
    path: TablePath, bucket: BucketKey, partition_name: str | None, offset: int, why: str, record_text: str = "", **ids: object
) -> BucketStopped:
    """The error of a bucket that stops before the record at `offset`, with the statement that leaves the record out.

    `why` names no value of the record; `record_text` has them.
    """
    partition = "" if partition_name is None else f", partition => '{partition_name}'"
    return BucketStopped(
        f"{place_of(path, bucket, partition_name)} stands at offset {offset}: {why}",
        hint=f"CALL sys.skip_record('{path}', {bucket.bucket_id}, {offset}{partition}, reason => '...') leaves that one "
        "record out for good; write its row again afterwards as it should be.",
        table_path=path,
        bucket=bucket,
        partition_name=partition_name,
        offset=offset,
        **{RECORD_ID: record_text or None},
        **ids,
    )


def snapshot_stopped(path: TablePath, bucket: BucketKey, partition_name: str | None, reason: str, **ids: object) -> BucketStopped:
    """The error of a bucket whose KV snapshot holds a row that cannot be written. No record of the log can be skipped for it."""
    return BucketStopped(
        f"{place_of(path, bucket, partition_name)} stands at its KV snapshot: {reason}",
        hint="Write the row of that key again as it should be, or delete it. The first round after the cluster's next KV snapshot goes on.",
        table_path=path,
        bucket=bucket,
        partition_name=partition_name,
        **ids,
    )


def partition_stopped(path: TablePath, bucket: BucketKey, partition_name: str, reason: str) -> BucketStopped:
    """The error of a bucket whose partition cannot have files in the lake, whatever its records hold."""
    return BucketStopped(
        f"{place_of(path, bucket, partition_name)} cannot be tiered: {reason}",
        hint="Drop that partition at the source, and write its rows under a shorter value, or in a table whose partition column has a "
        "shorter name. All other partitions are tiered.",
        table_path=path,
        bucket=bucket,
        partition_name=partition_name,
    )


def offset_of(error: BucketStopped) -> int | None:
    """The offset of the record at which a bucket stops; None for a row of its KV snapshot."""
    text = error.ids.get("offset", "")
    return int(text) if text.isdecimal() else None


def place_of(path: TablePath, bucket: BucketKey, partition_name: str | None) -> str:
    """A bucket in words: `bucket 3 of partition eu of db.t`."""
    return f"bucket {bucket.bucket_id}" + ("" if partition_name is None else f" of partition {partition_name}") + f" of {path}"


def refusal_of(
    error: UnwritableRow, batch: pa.RecordBatch, path: TablePath, bucket: BucketKey, partition_name: str | None
) -> BucketStopped:
    """The error of a bucket for a row of `batch`, which has the columns of `TableInfo.read_schema`."""
    offset = int(batch.column(OFFSET_COLUMN)[error.row].as_py())
    reason, record_text = f"its column {error.column!r} {error.reason}", described(text_of(batch.slice(error.row, 1)), error.detail)
    if offset < 0:
        return snapshot_stopped(path, bucket, partition_name, reason, column=error.column, **{RECORD_ID: record_text})
    return bucket_stopped(path, bucket, partition_name, offset, reason, record_text, column=error.column)


def described(record_text: str, detail: str) -> str:
    """The text of a record, with what a library said of a value in it."""
    return f"{record_text} ({detail})" if detail else record_text


def without_record(message: str) -> str:
    """The message of an error without the record that an older version wrote into it; as it is if it has none."""
    if " stands at " not in message:
        return message
    ends = (message.find(before) for before in _BEFORE_RECORD)
    return message[: min((end for end in ends if end >= 0), default=len(message))]


def text_of(row: pa.RecordBatch) -> str:
    """A batch of one row as text for people, cut: `id=3, tags=[('a', 1)]`."""
    texts = (f"{name}={_text(row.column(index)[0])}" for index, name in enumerate(row.schema.names) if name not in _NOT_OF_THE_ROW)
    text = ", ".join(texts)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[: MAX_VALUE_CHARACTERS - 1]}…"


def _text(value: Any) -> str:
    try:
        return repr(value.as_py())
    except (ValueError, OverflowError):  # Python has no dates and times outside of the years 1 to 9999
        if pa.types.is_temporal(value.type):
            return f"{value.value} {getattr(value.type, 'unit', 'days')} since 1970"
        return "(a value beyond the years 1 to 9999)"


def first_failing(count: int, is_good: Callable[[int, int], bool]) -> int:
    """The first of `count` rows for which `is_good(start, stop)` is false; one of them is known to be bad. Takes log2(count) calls."""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_good(low, middle) else (low, middle)
    return low


def cast_values(column: pa.Array[Any], field: pa.Field[Any]) -> pa.Array[Any]:
    """`column` in the type of `field`. Raises UnwritableRow for the first value that the type does not have, ArrowException otherwise."""
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        if (values := _values_in(column, 0, len(column), field.type)) is not None:
            return values
        row = first_failing(len(column), lambda start, stop: _values_in(column, start, stop, field.type) is not None)
        raise UnwritableRow(row, field.name, f"does not fit into {field.type}", str(error)) from error


def _values_in(column: pa.Array[Any], start: int, stop: int, kind: pa.DataType) -> pa.Array[Any] | None:
    """The values of some rows in another type. Arrow casts elements of a list outside of a slice, too, so these are taken out first."""
    try:
        return column.take(np.arange(start, stop)).cast(kind)
    except pa.ArrowInvalid:
        return None
