"""A record that cannot be written: its value as text, its place in a batch, and the error of the bucket that stops before it.

A round can put such a record aside: `DeadLetterRow` is what `sys.dead_letters` shows of it (docs/dead-letters.md).

Every caller who may know of the table can read the message of such an error, so it never holds a value of a row. The record's text is a
field of the error (`RECORD_ID`), which only callers with SELECT on the table see.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

from tiering.errors import BucketStopped, InvalidData
from tiering.model.declare import INT, column
from tiering.model.tables import CHANGE_TYPE_COLUMN, OFFSET_COLUMN, SYSTEM_COLUMN_FIELDS, BucketKey, TablePath

RECORD_ID = "record_text"
"""The id of an error whose value is the text of its record, and a library's message about a value in it."""
MAX_VALUE_CHARACTERS = 500
"""The most characters of a record's text in errors, events and answers."""
PUT_ASIDE_HINT = " With the table option 'table.datalake.on-bad-record' = 'dead-letter', rounds put such records aside and continue."
"""End of the hint for a record that a round can put aside (docs/dead-letters.md)."""
_BEFORE_RECORD = (", in the row ", " there, ", " cannot be written (")
"""The text that precedes the record in messages of older versions."""
ADDED_COLUMNS = {CHANGE_TYPE_COLUMN, *(field.name for field in SYSTEM_COLUMN_FIELDS)}


class UnwritableRow(Exception):
    """A row of a batch that a table cannot hold. `column` is the column's full path, such as `tags.element`.

    `reason` contains no value of the row. `detail` may, so it is only shown where the text of the record is.
    """

    def __init__(self, row: int, column: str, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.row = row
        self.column = column
        self.reason = reason
        self.detail = detail


def bucket_stopped(
    path: TablePath,
    bucket: BucketKey,
    partition_name: str | None,
    offset: int,
    why: str,
    record_text: str = "",
    *,
    can_be_put_aside: bool = True,
    **ids: object,
) -> BucketStopped:
    """Returns the error of a bucket that stops before the record at `offset`. Its hint has the statement that leaves out the record.

    `why` contains no value of the record; `record_text` contains the values. `can_be_put_aside`: the hint names the option for that, too.
    """
    partition = "" if partition_name is None else f", partition => '{partition_name}'"
    return BucketStopped(
        f"{place_of(path, bucket, partition_name)} stands at offset {offset}: {why}",
        hint=f"CALL sys.skip_record('{path}', {bucket.bucket_id}, {offset}{partition}, reason => '...') permanently leaves out that one "
        f"record. Then write its row again in a form that the table can hold.{PUT_ASIDE_HINT if can_be_put_aside else ''}",
        table_path=path,
        bucket=bucket,
        partition_name=partition_name,
        offset=offset,
        **{RECORD_ID: record_text or None},
        **ids,
    )


def snapshot_stopped(path: TablePath, bucket: BucketKey, partition_name: str | None, reason: str, **ids: object) -> BucketStopped:
    """Returns the error of a bucket whose KV snapshot holds a row that cannot be written. No `sys.skip_record` can leave out such a row."""
    return BucketStopped(
        f"{place_of(path, bucket, partition_name)} stands at its KV snapshot: {reason}",
        hint="Write the row of that key again in a form that the table can hold, or delete it. Tiering of the bucket continues after the "
        "cluster's next KV snapshot.",
        table_path=path,
        bucket=bucket,
        partition_name=partition_name,
        **ids,
    )


def partition_stopped(path: TablePath, bucket: BucketKey, partition_name: str, reason: str) -> BucketStopped:
    """Returns the error of a bucket whose partition cannot have files in the lake, whatever its records contain."""
    return BucketStopped(
        f"{place_of(path, bucket, partition_name)} cannot be tiered: {reason}",
        hint="Drop that partition at the source. Write its rows under a shorter value, or into a table whose partition column has a "
        "shorter name. Tiering continues for all other partitions.",
        table_path=path,
        bucket=bucket,
        partition_name=partition_name,
    )


def offset_of(error: BucketStopped) -> int | None:
    """Returns the offset of the record at which a bucket stops; None if it stops at a row of its KV snapshot."""
    text = error.ids.get("offset", "")
    return int(text) if text.isdecimal() else None


def reason_of(error: BucketStopped) -> str:
    """Returns why the record of the error cannot be written, without its place; it contains no value of the record."""
    place, stands, reason = error.message.partition(" stands at offset ")
    return reason.partition(": ")[2] if stands else place


def not_put_aside(error: BucketStopped, why: str, hint: str = "") -> BucketStopped:
    """Returns the error with the reason why its record is not put aside. `hint` is appended to its hint instead of the option's name."""
    error.message += why
    error.hint = (error.hint or "").replace(PUT_ASIDE_HINT, "") + hint
    return error


def may_come_from_a_value(error: BaseException) -> bool:
    """Returns whether a value may be the cause; errors of storage, memory or the process are unrelated to values."""
    return isinstance(error, InvalidData | ArithmeticError | LookupError | TypeError | ValueError | struct.error)


def place_of(path: TablePath, bucket: BucketKey, partition_name: str | None) -> str:
    """Returns the name of a bucket for messages, such as `bucket 3 of partition eu of db.t`."""
    return f"bucket {bucket.bucket_id}" + ("" if partition_name is None else f" of partition {partition_name}") + f" of {path}"


def refusal_of(
    error: UnwritableRow, batch: pa.RecordBatch, path: TablePath, bucket: BucketKey, partition_name: str | None
) -> BucketStopped:
    """Returns the error of a bucket for a row of `batch`, which has the columns of `TableInfo.read_schema`."""
    offset = int(batch.column(OFFSET_COLUMN)[error.row].as_py())
    reason, record_text = f"its column {error.column!r} {error.reason}", described(text_of(batch.slice(error.row, 1)), error.detail)
    if offset < 0:
        return snapshot_stopped(path, bucket, partition_name, reason, column=error.column, **{RECORD_ID: record_text})
    return bucket_stopped(path, bucket, partition_name, offset, reason, record_text, column=error.column)


def described(record_text: str, detail: str) -> str:
    """Returns the text of a record, followed by a library's message about a value in it."""
    return f"{record_text} ({detail})" if detail else record_text


def without_record(message: str) -> str:
    """Returns an error's message without the record that an older version wrote into it. A message without a record is unchanged."""
    if " stands at " not in message:
        return message
    ends = (message.find(before) for before in _BEFORE_RECORD)
    return message[: min((end for end in ends if end >= 0), default=len(message))]


def text_of(row: pa.RecordBatch) -> str:
    """Returns a batch of one row as readable text of at most `MAX_VALUE_CHARACTERS`, such as `id=3, tags=[('a', 1)]`."""
    texts = (f"{name}={_text(row.column(index)[0])}" for index, name in enumerate(row.schema.names) if name not in ADDED_COLUMNS)
    text = ", ".join(texts)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[: MAX_VALUE_CHARACTERS - 1]}…"


def _text(value: Any) -> str:
    try:
        return repr(value.as_py())
    except (ValueError, OverflowError):  # Python has no dates and times outside the years 1 to 9999
        if pa.types.is_temporal(value.type):
            return f"{value.value} {getattr(value.type, 'unit', 'days')} since 1970"
        return "(a value outside the years 1 to 9999)"


def first_failing(count: int, is_good: Callable[[int, int], bool]) -> int:
    """Returns the index of the first of `count` rows for which `is_good(start, stop)` is false. At least one row must be bad.

    It calls `is_good` log2(count) times.
    """
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_good(low, middle) else (low, middle)
    return low


def cast_values(column: pa.Array[Any], field: pa.Field[Any]) -> pa.Array[Any]:
    """Returns `column` with the type of `field`. Raises UnwritableRow for the first value outside that type, ArrowException otherwise."""
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        if (values := _values_in(column, 0, len(column), field.type)) is not None:
            return values
        row = first_failing(len(column), lambda start, stop: _values_in(column, start, stop, field.type) is not None)
        raise UnwritableRow(row, field.name, f"does not fit into {field.type}", str(error)) from error


def _values_in(column: pa.Array[Any], start: int, stop: int, kind: pa.DataType) -> pa.Array[Any] | None:
    """Returns some rows' values with another type; None if one does not fit.

    Arrow also casts list elements outside a slice, so `take` copies first.
    """
    try:
        return column.take(np.arange(start, stop)).cast(kind)
    except pa.ArrowInvalid:
        return None


class DeadLetterStatus(StrEnum):
    """The decision about a dead letter."""

    WAITING = "waiting"
    SUPERSEDED = "superseded"
    DISCARDED = "discarded"


@dataclass(frozen=True)
class DeadLetterRow:
    """One dead letter. The coordinator records its place; all other columns come from the lake table of the dead letters."""

    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    partition_id: int | None = column("Id of the record's partition; NULL in a table without partitions.")
    partition_name: str | None = column("Name of the record's partition; NULL without partitions.")
    bucket_id: int = column("Bucket of the record.", arrow_type=INT)
    offset: int = column("Offset of the record in the log of its bucket.")
    status: str = column(
        "waiting; superseded, if a later change of its key won over a replay; or discarded, if a user decided that the record stays out "
        "of the lake."
    )
    superseded_time: datetime | None = column("When a replay saw that the key changed later; NULL unless superseded.")
    superseding_offset: int | None = column("Offset of the newest later change of the key at that time; NULL unless superseded.")
    superseding_change_type: str | None = column("Change type of that change: +I, +U or -D; NULL unless superseded.")
    change_type: str | None = column(
        "Change type of the record: +A, +I, -U or +U. NULL, as all columns below, if the lake does not answer."
    )
    record_time: datetime | None = column("When the record was written to the log.")
    set_aside_time: datetime | None = column("When a round put the record aside.")
    round_id: str | None = column("The round that put the record aside.")
    column_name: str | None = column("Full name of the column that the lake cannot hold; NULL if the writer named none.")
    reason: str | None = column("Why the lake cannot hold the record, without its values.")
    record: str | None = column("The record's values as a JSON object; NULL for a caller without SELECT.")
