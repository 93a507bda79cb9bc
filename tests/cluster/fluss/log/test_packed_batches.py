"""Record batches whose rows are packed one by one: damage is found although the checksum, which was made behind it, holds."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator

import pyarrow as pa
import pytest

from support.clusters.fluss_log import MAGIC_PLACE, VERSIONS, packed_record_batch, schema_json
from support.clusters.fluss_rows import encode_row
from tiering.cluster.fluss.log.batches import LogPlace, complete_batches
from tiering.cluster.fluss.log.packed_rows import RowEncoding
from tiering.cluster.fluss.log.rows import LogChunk, RowFormat, rows_of
from tiering.errors import BucketStopped, DataCorrupt
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, ChangeType, TablePath

PATH, BUCKET = TablePath("sales", "orders"), BucketKey(None, 0)
PLACE = LogPlace(PATH, BUCKET, "tablet-1:9123")
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])
ROWS = [(1, "a"), (2, None), (3, "much longer")]
KINDS = [ChangeType.INSERT, ChangeType.UPDATE_BEFORE, ChangeType.DELETE]


def records(encoding: RowEncoding) -> bytes:
    rows = [encode_row(SCHEMA.types, row, encoding) for row in ROWS]
    return b"".join(struct.pack("<ib", len(row) + 1, kind) + row for row, kind in zip(rows, KINDS, strict=True))


def packed(content: bytes, version: int = 0, statistics: bytes = b"") -> bytes:
    """A record batch of the three records."""
    return packed_record_batch([b""] * len(ROWS), KINDS, content=content, version=version, statistics=statistics)


def read(batch: bytes, encoding: RowEncoding, start: int = 0, stop: int = 3) -> list[tuple[int, str | None, int, int]]:
    data = pa.py_buffer(batch)
    chunk = LogChunk(data, list(complete_batches(data, (0, 0), 3, PLACE)), PLACE)
    row_format = RowFormat(SCHEMA, True, {1: schema_json(SCHEMA)}, encoding)
    batches = rows_of([chunk], TieringLogSplit(PATH, BUCKET, None, start, stop, stop), row_format)
    return [
        (row["id"], row["text"], row["__offset"], row["__change_type"])
        for row in pa.Table.from_batches(list(batches), row_format.read_schema).to_pylist()
    ]


@pytest.mark.parametrize("encoding", RowEncoding)
@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_read_with_their_changes_and_trimmed_to_the_split(encoding: RowEncoding, version: int) -> None:
    whole = [(*row, offset, kind) for offset, (row, kind) in enumerate(zip(ROWS, KINDS, strict=True))]
    batch = packed(records(encoding), version, b"some" * version)
    assert read(batch, encoding) == whole
    assert read(batch, encoding, 1, 2) == whole[1:2]


@pytest.mark.parametrize("encoding", RowEncoding)
@pytest.mark.parametrize(("version", "other"), list(itertools.permutations(VERSIONS, 2)))
@pytest.mark.parametrize("statistics", [b"", b"\0", b"\1\0\0\0\0\0\0\0"])
def test_a_version_that_became_another_known_one_is_damage(encoding: RowEncoding, version: int, other: int, statistics: bytes) -> None:
    """The checksum still matches between the versions 0 and 1. The first record then looks like statistics, or the statistics like it."""
    batch = bytearray(packed(records(encoding), version, statistics if version else b""))
    batch[MAGIC_PLACE] = other
    with pytest.raises(DataCorrupt):
        read(bytes(batch), encoding)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda content: content[:-1], "the records do not end"),
        (lambda content: content + b"\0", "do not end at the end"),
        (lambda content: struct.pack("<i", 0) + content[4:], "a length of 0 bytes"),
        (lambda content: content[:4] + b"\x09" + content[5:], "unknown change type"),
        (lambda content: b"", "ends within a record"),
    ],
)
@pytest.mark.parametrize("encoding", RowEncoding)
def test_a_damaged_batch_is_named(damage: object, says: str, encoding: RowEncoding) -> None:
    assert callable(damage)
    with pytest.raises(DataCorrupt, match=rf"cannot be decoded \(.*{says}.*tablet-1:9123, bucket 0 of sales\.orders, offsets \[0, 3\)"):
        read(packed(damage(records(encoding))), encoding)


TIMES = pa.schema([pa.field("id", pa.int64()), pa.field("at", pa.timestamp("us"))])
LAST_US = 2**63 - 1


@pytest.mark.parametrize("encoding", RowEncoding)
@pytest.mark.parametrize(
    ("milliseconds", "nanoseconds", "fits"),
    [
        (LAST_US // 1_000, LAST_US % 1_000 * 1_000, True),
        (LAST_US // 1_000, LAST_US % 1_000 * 1_000 + 1_000, False),
        (-(2**63) // 1_000, (-(2**63)) % 1_000 * 1_000, True),
        (-(2**63) // 1_000, (-(2**63)) % 1_000 * 1_000 - 1_000, False),
        (2**63 - 1, 0, False),
        (-(2**63), 0, False),
    ],
)
def test_a_timestamp_that_microseconds_cannot_say_stops_the_bucket(
    encoding: RowEncoding, milliseconds: int, nanoseconds: int, fits: bool
) -> None:
    """The time wrapped around, and was another time in the lake."""
    rows = [encode_row(TIMES.types, (number, at), encoding) for number, at in enumerate((5, (milliseconds, nanoseconds), 7))]
    content = b"".join(struct.pack("<ib", len(row) + 1, ChangeType.INSERT) + row for row in rows)
    data = pa.py_buffer(packed_record_batch([b""] * 3, [ChangeType.INSERT] * 3, content=content))
    chunk = LogChunk(data, list(complete_batches(data, (0, 0), 3, PLACE)), PLACE)

    def read_times(start: int, stop: int) -> Iterator[pa.RecordBatch]:
        row_format = RowFormat(TIMES, True, {1: schema_json(TIMES)}, encoding)
        return rows_of([chunk], TieringLogSplit(PATH, BUCKET, None, start, stop, stop), row_format)

    batches = read_times(0, 3)
    if fits:
        assert next(batches).column("at")[1].value == milliseconds * 1_000 + nanoseconds // 1_000
        return
    assert next(batches).column("__offset").to_pylist() == [0]
    with pytest.raises(BucketStopped, match=r"bucket 0 of sales.orders stands at offset 1: its column 'at' holds a time"):
        next(batches)
    assert [rows.column("__offset").to_pylist() for rows in read_times(2, 3)] == [[2]], "a reader behind the record goes on"
