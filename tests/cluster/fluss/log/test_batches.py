"""Record batches of Fluss's log: whatever was written is read again, whatever is damaged is found."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.clusters.fluss_log import CRC_PLACES, HEADER_BYTES, MAGIC_PLACE, UNPROTECTED_BYTES, VERSIONS, record_batch, schema_json
from support.values.any_values import build, columns
from tiering.cluster.fluss.log.batches import LogPlace, complete_batches
from tiering.cluster.fluss.log.rows import TARGET_BATCH_ROWS, LogChunk, RowFormat, rows_of
from tiering.errors import BucketStopped, DataCorrupt, SourceChanged, UnsupportedLogVersion
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, TablePath

PATH, BUCKET = TablePath("sales", "orders"), BucketKey(7, 3)
PLACE = LogPlace(PATH, BUCKET, "tablet-1:9123")
COMMIT_MS = 1_700_000_000_000


def split(start: int, stop: int) -> TieringLogSplit:
    return TieringLogSplit(PATH, BUCKET, "p", start, stop, stop)


def chunk(data: bytes, first: int, stop: int) -> LogChunk:
    content = pa.py_buffer(data)
    return LogChunk(content, list(complete_batches(content, (first, first), stop, PLACE)), PLACE)


def read(data: bytes, start: int, stop: int, row_format: RowFormat, first: int = 0) -> list[pa.RecordBatch]:
    return list(rows_of([chunk(data, first, stop)], split(start, stop), row_format))


@dataclass
class Log:
    """Record batches from offset 0 on, and the rows that they hold."""

    schema: pa.Schema
    has_changes: bool
    parts: list[bytes] = field(default_factory=list)
    ends: list[int] = field(default_factory=lambda: [0])
    rows: list[tuple[int, int, int, pa.RecordBatch]] = field(default_factory=list)
    """Offset, commit time, change type and a batch of the one row."""

    @property
    def data(self) -> bytes:
        return b"".join(self.parts)

    @property
    def row_format(self) -> RowFormat:
        return RowFormat(self.schema, self.has_changes, {1: schema_json(self.schema)})

    def add(self, rows: pa.RecordBatch, kinds: Sequence[int], gap: int, **options: Any) -> None:
        start, commit_ms = self.ends[-1], COMMIT_MS + len(self.parts)
        offsets = rows.num_rows + gap
        change_types = kinds if self.has_changes else None
        self.parts.append(record_batch(rows, start, change_types=change_types, commit_ms=commit_ms, offsets=offsets, **options))
        self.rows += [(start + index, commit_ms, kinds[index], rows.slice(index, 1)) for index in range(rows.num_rows)]
        self.ends.append(start + offsets)

    def check(self, batches: list[pa.RecordBatch], start: int, stop: int) -> None:
        """Checks that the batches have exactly the rows of the range, bit by bit."""
        expected = [row for row in self.rows if start <= row[0] < stop]
        assert sum(batch.num_rows for batch in batches) == len(expected)
        if not expected:
            return
        table = pa.Table.from_batches(batches).combine_chunks()
        table.validate(full=True)
        assert table.schema.equals(self.row_format.read_schema)
        assert table["__bucket"].to_pylist() == [3] * len(expected)
        assert table["__offset"].to_pylist() == [row[0] for row in expected]
        times = [datetime.fromtimestamp(row[1] / 1_000, UTC) for row in expected]
        assert table["__timestamp"].to_pylist() == times
        if self.has_changes:
            assert table["__change_type"].to_pylist() == [row[2] for row in expected]
        own = pa.Table.from_batches([row[3] for row in expected])
        for name in self.schema.names:
            assert same_bits(table[name].combine_chunks(), own[name].combine_chunks())


def same_bits(left: pa.Array[Any], right: pa.Array[Any]) -> bool:
    """Equal with NaN equal to itself; their texts are compared where Arrow has no such comparison."""
    return left.equals(right) or str(left.to_string(window=100)) == str(right.to_string(window=100))


@st.composite
def logs(draw: st.DrawFn, most_batches: int = 4) -> Log:
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=most_batches))
    total = sum(sizes)
    drawn = [draw(columns(total)) for _ in range(draw(st.integers(1, 3)))]
    schema = pa.schema([pa.field(f"c{place}", column.type) for place, column in enumerate(drawn)])
    whole = pa.RecordBatch.from_arrays(drawn, schema=schema)
    log, first = Log(schema, draw(st.booleans())), 0
    for size in sizes:
        kinds = draw(st.lists(st.integers(1, 4), min_size=size, max_size=size)) if log.has_changes else [0] * size
        gap = 1 if size == 0 else draw(st.integers(0, 1))
        version = draw(st.sampled_from(VERSIONS))
        statistics = draw(st.binary(max_size=40)) if version and size else b""
        compression = draw(st.sampled_from([None, "zstd", "lz4"]))
        log.add(whole.slice(first, size), kinds, gap, compression=compression, version=version, statistics=statistics)
        first += size
    return log


@given(logs(), st.data())
def test_any_range_is_read_as_it_was_written(log: Log, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, log.ends[-1]))
    stop = data.draw(st.integers(start, log.ends[-1]))
    log.check(read(log.data, start, stop, log.row_format), start, stop)


@given(logs(), st.data())
def test_a_cut_last_batch_is_left_out(log: Log, data: st.DataObject) -> None:
    whole = log.data
    cut = data.draw(st.integers(0, len(whole)))
    complete = sum(len(b"".join(log.parts[: count + 1])) <= cut for count in range(len(log.parts)))
    log.check(read(whole[:cut], 0, log.ends[-1], log.row_format), 0, log.ends[complete])


@given(logs(), st.data())
def test_no_flipped_bit_goes_unnoticed(log: Log, data: st.DataObject) -> None:
    """A length that became longer makes a cut batch, whose rows are asked for again: so there may be fewer rows, never other ones.
    A magic that became a version of the future is reported as such."""
    broken = data.draw(st.integers(0, len(log.parts) - 1))
    part = log.parts[broken]
    place = data.draw(st.integers(0, len(part) - 1).filter(lambda place: place not in UNPROTECTED_BYTES[part[MAGIC_PLACE]]))
    damaged = bytearray(part)
    damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    is_unknown = damaged[MAGIC_PLACE] not in VERSIONS
    parts = [*log.parts[:broken], bytes(damaged), *log.parts[broken + 1 :]]
    became_longer = 8 <= place < 12
    error = UnsupportedLogVersion if is_unknown else DataCorrupt
    with pytest.raises(error) if not became_longer else suppress(error) as caught:
        batches = read(b"".join(parts), 0, log.ends[-1], log.row_format)
        log.check(batches, 0, log.ends[broken])
    if caught is not None:
        assert "tablet-1:9123, bucket 7/3 of sales.orders" in caught.value.message
        assert int(caught.value.ids["starting_offset"]) == log.ends[broken]


@given(logs(most_batches=1), st.data())
def test_what_is_wrong_behind_a_right_checksum_has_a_name(log: Log, data: st.DataObject) -> None:
    """A writer with a defect makes the checksum of its own bytes."""
    part = bytearray(log.data)
    crc = CRC_PLACES[part[MAGIC_PLACE]]
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(crc + 4, HEADER_BYTES[part[MAGIC_PLACE]] - 1) | st.integers(crc + 4, len(part) - 1))
        part[place] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    struct.pack_into("<I", part, crc, google_crc32c.value(bytes(part[crc + 4 :])))
    with suppress(DataCorrupt, SourceChanged, BucketStopped):
        read(bytes(part), 0, log.ends[-1], log.row_format)


def numbers(count: int, first: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(np.arange(first, first + count))})


NUMBERS_FORMAT = RowFormat(numbers(0).schema, False, {1: schema_json(numbers(0).schema)})


@pytest.mark.parametrize("version", VERSIONS)
def test_a_flipped_checksum_names_the_range(version: int) -> None:
    data = bytearray(record_batch(numbers(5), 40, version=version))
    data[CRC_PLACES[version]] ^= 1
    with pytest.raises(DataCorrupt, match=r"does not match its checksum: tablet-1:9123, .* offsets \[40, 45\)") as caught:
        read(bytes(data), 40, 45, NUMBERS_FORMAT, 40)
    assert (caught.value.ids["starting_offset"], caught.value.ids["stopping_offset"]) == ("40", "45")


def test_a_hole_in_the_offsets_is_damage() -> None:
    data = record_batch(numbers(5), 0) + record_batch(numbers(5), 6)
    with pytest.raises(DataCorrupt, match="continues at offset 6 instead of 5"):
        read(data, 0, 11, NUMBERS_FORMAT)


@pytest.mark.parametrize("magic", [3, 4, 127, 128, 255])
def test_a_later_version_is_an_unsupported_version_and_no_damage(magic: int) -> None:
    data = bytearray(record_batch(numbers(5), 40))
    data[MAGIC_PLACE] = magic
    version = magic if magic < 128 else magic - 256
    place = f"version {version}, and this release reads the versions 0 to 2: tablet-1:9123, bucket 7/3 of sales.orders, from offset 40 on"
    with pytest.raises(UnsupportedLogVersion, match=place) as caught:
        read(bytes(data), 40, 45, NUMBERS_FORMAT, 40)
    assert "Upgrade Lakeward" in caught.value.hint
    assert not caught.value.retryable


def test_the_records_before_a_later_version_are_read() -> None:
    data = bytearray(record_batch(numbers(5), 0) + record_batch(numbers(5), 5, version=1))
    data[len(record_batch(numbers(5), 0)) + MAGIC_PLACE] = 3
    (batch,) = read(bytes(data), 0, 5, NUMBERS_FORMAT)
    assert batch.column("n").to_pylist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 100])
def test_statistics_that_do_not_fit_into_their_batch_are_damage(version: int, length: int) -> None:
    """The checksum is right: the header is checked before it."""
    whole = record_batch(numbers(0), 40, offsets=5, version=version, statistics=b"s" * 99)
    data = bytearray(whole)
    struct.pack_into("<i", data, HEADER_BYTES[version] - 4, length)
    struct.pack_into("<I", data, CRC_PLACES[version], google_crc32c.value(bytes(data[CRC_PLACES[version] + 4 :])))
    with pytest.raises(DataCorrupt, match=rf"a record batch of {len(data)} bytes has statistics of {length} bytes: .* offsets \[40, "):
        read(bytes(data), 40, 45, NUMBERS_FORMAT, 40)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_length_below_the_header_is_damage(version: int) -> None:
    data = bytearray(record_batch(numbers(0), 40, offsets=5, version=version))
    assert len(data) == HEADER_BYTES[version]
    struct.pack_into("<i", data, 8, len(data) - 12 - 1)
    with pytest.raises(DataCorrupt, match=f"a length of {len(data) - 13} bytes"):
        read(bytes(data), 40, 45, NUMBERS_FORMAT, 40)


@pytest.mark.parametrize("kinds", [None, [0] * 5, [1] * 5, [1, 0, 0, 0, 0]], ids=["append-only", "appends", "inserts", "one insert"])
@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize(("version", "other"), list(itertools.permutations(VERSIONS, 2)))
@pytest.mark.parametrize("statistics", [b"", b"\0\0\0", b"\1\0\0\0\0\0\0\0"])
def test_a_version_that_became_another_known_one_is_damage(
    version: int, other: int, kinds: list[int] | None, compression: str | None, statistics: bytes
) -> None:
    """The checksums of the versions 0 and 1 cover the same bytes, but not the magic."""
    row_format = NUMBERS_FORMAT if kinds is None else RowFormat(NUMBERS_FORMAT.schema, True, NUMBERS_FORMAT.schemas)
    for count in range(1, 6):
        options: dict[str, Any] = {"version": version, "statistics": statistics if version else b"", "compression": compression}
        data = bytearray(record_batch(numbers(count), 0, change_types=kinds and kinds[:count], **options))
        data[MAGIC_PLACE] = other
        with pytest.raises(DataCorrupt):
            read(bytes(data), 0, count, row_format)


def test_small_batches_are_joined_and_large_ones_pass() -> None:
    small = b"".join(record_batch(numbers(1_000, first), first) for first in range(0, 70_000, 1_000))
    assert [batch.num_rows for batch in read(small, 0, 70_000, NUMBERS_FORMAT)] == [66_000, 4_000]
    large = record_batch(numbers(TARGET_BATCH_ROWS * 3), 0)
    (batch,) = read(large, 0, TARGET_BATCH_ROWS * 3, NUMBERS_FORMAT)
    assert batch.num_rows == TARGET_BATCH_ROWS * 3


def test_what_is_passed_on_lies_at_aligned_addresses() -> None:
    """Change types are single bytes before the Arrow message; what comes after Arrow may count on its alignment."""
    for count in (32_769, 32_771, 32_774):
        data = record_batch(numbers(count), 0, change_types=[1] * count)
        (batch,) = read(data, 0, count, RowFormat(NUMBERS_FORMAT.schema, True, NUMBERS_FORMAT.schemas))
        assert all(buffer.address % 8 == 0 for column in batch.columns for buffer in column.buffers() if buffer is not None)


def test_an_unknown_change_type_is_damage() -> None:
    data = record_batch(numbers(2), 0, change_types=[1, 5])
    with pytest.raises(DataCorrupt, match="unknown change type"):
        read(data, 0, 2, RowFormat(NUMBERS_FORMAT.schema, True, NUMBERS_FORMAT.schemas))


def test_a_log_table_has_no_changes() -> None:
    data = record_batch(numbers(2), 0, change_types=[0, 4])
    with pytest.raises(DataCorrupt, match="the log of a log table has a record that is not an append"):
        read(data, 0, 2, NUMBERS_FORMAT)


def test_a_batch_of_other_columns_is_damage() -> None:
    data = record_batch(pa.record_batch({"n": pa.array(["a", "b"])}), 0)
    with pytest.raises(DataCorrupt, match="cannot be decoded"):
        read(data, 0, 2, NUMBERS_FORMAT)


def test_a_batch_that_becomes_huge_is_not_decompressed() -> None:
    zeros = pa.record_batch({"n": pa.array(np.zeros(200_000_000, np.int64))})
    data = record_batch(zeros, 0, compression="zstd")
    assert len(data) < 1_000_000
    with pytest.raises(DataCorrupt, match="more than 1073741824 bytes long when decompressed"):
        read(data, 0, 200_000_000, NUMBERS_FORMAT)


def test_columns_added_later_are_null_in_older_rows() -> None:
    older, newer = numbers(3), pa.record_batch({"n": pa.array([3, 4]), "added": pa.array(["x", None])})
    data = record_batch(older, 0, schema_id=1) + record_batch(newer, 3, schema_id=2) + record_batch(older, 5, schema_id=1)
    row_format = RowFormat(newer.schema, False, {1: schema_json(older.schema), 2: schema_json(newer.schema)})
    (batch,) = read(data, 0, 8, row_format)
    assert batch.column("added").to_pylist() == [None, None, None, "x", None, None, None, None]
    assert batch.column("n").to_pylist() == [0, 1, 2, 3, 4, 0, 1, 2]


def test_an_unknown_schema_id_is_a_changed_source() -> None:
    with pytest.raises(SourceChanged, match=r"the columns of sales.orders changed .* schema id 2"):
        read(record_batch(numbers(3), 0, schema_id=2), 0, 3, NUMBERS_FORMAT)


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_without_records_are_passed_over(version: int) -> None:
    empty = numbers(0)
    data = record_batch(empty, 0, offsets=1, version=version) + record_batch(numbers(2), 1, version=version, statistics=b"s" * version)
    data += record_batch(empty, 3, offsets=1, version=version)
    (batch,) = read(data, 0, 4, NUMBERS_FORMAT)
    assert batch.column("__offset").to_pylist() == [1, 2]
    assert read(record_batch(empty, 0, offsets=1, version=version), 0, 1, NUMBERS_FORMAT) == []


FAR_TIMES = pa.schema([pa.field("id", pa.int64()), pa.field("at", pa.timestamp("ms")), pa.field("later", pa.list_(pa.timestamp("s")))])
IN_TABLE = pa.schema([pa.field("id", pa.int64()), pa.field("at", pa.timestamp("us")), pa.field("later", pa.list_(pa.timestamp("us")))])


@pytest.mark.parametrize("joined", [True, False], ids=["joined", "one by one"])
@pytest.mark.parametrize("bad", [(2,), (0,), (5,), (1, 4)])
@pytest.mark.parametrize("column", ["at", "later"])
def test_a_time_that_the_table_cannot_say_stops_the_bucket_behind_the_records_before_it(
    column: str, bad: tuple[int, ...], joined: bool
) -> None:
    """TIMESTAMP(3) holds Long.MAX_VALUE; microseconds do not reach it. A reader that begins behind the record goes on."""
    far = 2**63 - 1
    parts = []
    for first in (0, 3):
        times = [far if column == "at" and at in bad else at for at in range(first, first + 3)]
        lists = [[at, far if column == "later" and at in bad else None] for at in range(first, first + 3)]
        arrays = [pa.array(range(first, first + 3)), pa.array(times).view(pa.timestamp("ms")), build(FAR_TIMES.field("later").type, lists)]
        parts.append(record_batch(pa.RecordBatch.from_arrays(arrays, schema=FAR_TIMES), first))
    row_format = RowFormat(IN_TABLE, False, {1: schema_json(FAR_TIMES)})

    def read_to_the_stop(start: int) -> tuple[list[int], str | None]:
        offsets: list[int] = []
        chunks = [chunk(b"".join(parts), 0, 6)] if joined else [chunk(part, first, 6) for part, first in zip(parts, (0, 3), strict=True)]
        try:
            for batch in rows_of(chunks, split(start, 6), row_format):
                offsets += batch.column("__offset").to_pylist()
        except BucketStopped as error:
            return offsets, f"{error.ids['column']} at {error.ids['offset']}"
        return offsets, None

    first_bad, last_bad = bad[0], bad[-1]
    assert read_to_the_stop(0) == (list(range(first_bad)), f"{column} at {first_bad}")
    assert read_to_the_stop(last_bad + 1) == (list(range(last_bad + 1, 6)), None)
