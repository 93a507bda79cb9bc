"""A dead letter: a record that the lake cannot hold, with its place, the reason, its values as JSON, and its bytes. Pure."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tiering.model.refused_records import ADDED_COLUMNS
from tiering.model.tables import CHANGE_TYPE_COLUMN, OFFSET_COLUMN, TIMESTAMP_COLUMN, BucketKey, ChangeType, SkippedRecords

if TYPE_CHECKING:  # it imports this module
    from tiering.lake.base import WriteResult

MAX_REASON_CHARACTERS = 500


@dataclass(frozen=True)
class DeadLetter:
    """A record that was put aside. `reason` contains no value of the record; `record_json` and `raw` contain all of them.

    `raw` is the record as its reader returned it, with the columns of `TableInfo.read_schema`: an Arrow IPC stream of one row.
    """

    bucket: BucketKey
    partition_name: str | None
    offset: int
    change_type: str
    record_time_us: int | None
    column: str | None
    reason: str
    record_json: str
    raw: bytes
    trace: str | None = None
    """The cluster's trace of the record, by which it is recognized (`RewritableLogs`); None = the cluster has no traces."""

    def to_plain(self) -> dict[str, Any]:
        """Returns the dead letter in the form of a write result's header. The bucket is that of the write result."""
        plain = {name: value for name, value in vars(self).items() if name not in ("bucket", "raw")}
        return {**plain, "raw": base64.b64encode(self.raw).decode("ascii")}

    @staticmethod
    def of_plain(bucket: BucketKey, plain: Mapping[str, Any]) -> DeadLetter:
        """Returns the dead letter of `to_plain`."""
        return DeadLetter(bucket, **{**plain, "raw": base64.b64decode(plain["raw"])})


def dead_letter_of(row: pa.RecordBatch, bucket: BucketKey, partition_name: str | None, column: str | None, reason: str) -> DeadLetter:
    """Returns the dead letter of a batch of one row, which has the columns of `TableInfo.read_schema`."""
    row = row.take([0])  # without the values of the batch's other rows
    time = row.column(TIMESTAMP_COLUMN)[0]
    kind = ChangeType(row.column(CHANGE_TYPE_COLUMN)[0].as_py()) if CHANGE_TYPE_COLUMN in row.schema.names else ChangeType.APPEND
    return DeadLetter(
        bucket=bucket,
        partition_name=partition_name,
        offset=int(row.column(OFFSET_COLUMN)[0].as_py()),
        change_type=kind.symbol,
        record_time_us=time.value if time.is_valid else None,
        column=column,
        reason=reason[:MAX_REASON_CHARACTERS],
        record_json=json_of(row),
        raw=raw_of(row),
    )


def with_letters(present: SkippedRecords, letters: Iterable[DeadLetter]) -> dict[BucketKey, dict[int, str | None]]:
    """Returns the skipped records with the records of `letters`, in order of their offsets."""
    records = {bucket: dict(offsets) for bucket, offsets in present.items()}
    for letter in letters:
        records.setdefault(letter.bucket, {})[letter.offset] = letter.trace
    return {bucket: dict(sorted(offsets.items())) for bucket, offsets in records.items()}


def dead_letters_of(results: Iterable[WriteResult]) -> dict[BucketKey, list[int]]:
    """Returns the offsets of the dead letters in write results, by bucket."""
    offsets: dict[BucketKey, list[int]] = defaultdict(list)
    for letter in (letter for result in results for letter in result.dead_letters):
        offsets[letter.bucket].append(letter.offset)
    return dict(offsets)


def raw_of(row: pa.RecordBatch) -> bytes:
    """Returns a batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, row.schema) as writer:
        writer.write_batch(row)
    return sink.getvalue().to_pybytes()


def row_of(raw: bytes) -> pa.RecordBatch:
    """Returns the record of `DeadLetter.raw`: a batch of one row."""
    with pa.ipc.open_stream(raw) as reader:
        return reader.read_next_batch()


def json_of(row: pa.RecordBatch) -> str:
    """Returns the values of a batch of one row as a JSON object, without the columns that Lakeward adds.

    Decimals, and integers beyond 2^53, are texts; binary values are base64; a map is a list of [key, value], because a key may come twice;
    dates and times have ISO form, or a number with its unit where Python has no such date; NaN and infinities are texts.
    """
    values = {name: _plain(row.column(index)[0]) for index, name in enumerate(row.schema.names) if name not in ADDED_COLUMNS}
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _plain(scalar: Any) -> Any:
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_map(kind):
        entries = scalar.values
        return [[_plain(entry["key"]), _plain(entry["value"])] for entry in _entries(entries)]
    if pa.types.is_struct(kind):
        return {field.name: _plain(scalar[index]) for index, field in enumerate(kind)}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [_plain(element) for element in scalar.values]
    return _leaf(scalar)


def _entries(entries: pa.StructArray) -> list[dict[str, Any]]:
    keys, values = (entries.field(index) for index in range(2))
    return [{"key": keys[place], "value": values[place]} for place in range(len(entries))]


def _leaf(scalar: Any) -> Any:
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError):  # Python has no dates and times outside the years 1 to 9999
        unit = getattr(scalar.type, "unit", "days")
        return f"{scalar.value} {unit} since 1970"
    if isinstance(value, float):
        return value if pc.is_finite(scalar).as_py() else repr(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta) or (isinstance(value, int) and abs(value) > 1 << 53):
        return str(value)
    return value
