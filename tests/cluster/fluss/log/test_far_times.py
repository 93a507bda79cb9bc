"""Timestamps of Fluss over all that 64 bits hold: each is read exactly, or its record stops the bucket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from support.clusters.fluss_log import packed_record_batch, record_batch, schema_json
from support.clusters.fluss_rows import encode_row
from support.depth import examples
from tiering.cluster.fluss.log import packed_rows, schemas
from tiering.cluster.fluss.log.batches import LogPlace, complete_batches
from tiering.cluster.fluss.log.packed_rows import RowEncoding
from tiering.cluster.fluss.log.rows import LogChunk, RowFormat, rows_of
from tiering.errors import BucketStopped
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, ChangeType, TablePath

PATH, BUCKET = TablePath("sales", "orders"), BucketKey(None, 0)
PLACE = LogPlace(PATH, BUCKET, "tablet-1:9123")
LOWEST, HIGHEST = -(2**63), 2**63 - 1
MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
TABLE = pa.schema([pa.field("id", pa.int64()), pa.field("at", pa.timestamp("us"))])

Times = list[int | None]
"""Times of the records from offset 0 on, in the unit in which they are written."""


def instants(microseconds: int) -> st.SearchStrategy[int]:
    """In a unit of so many microseconds, of as many bits as drawn: by themselves most integers that Hypothesis draws are small."""
    ends = [LOWEST, -(-LOWEST // microseconds), HIGHEST // microseconds, HIGHEST]
    any_bits = st.integers(1, 63).flatmap(lambda bits: st.integers(2 ** (bits - 1), 2**bits - 1))
    return any_bits | any_bits.map(lambda number: ~number) | st.sampled_from([*ends, 0, *(end - 1 if end > 0 else end + 1 for end in ends)])


@st.composite
def arrow_times(draw: st.DrawFn) -> tuple[str, Times]:
    unit = draw(st.sampled_from(sorted(MICROSECONDS)))
    return unit, draw(st.lists(instants(MICROSECONDS[unit]) | st.none(), min_size=1, max_size=6))


PACKED_TIMES = st.lists(st.tuples(instants(1_000), st.integers(0, 999_999)) | st.none(), min_size=1, max_size=6)
"""Milliseconds, and nanoseconds within one, as TIMESTAMP(4) to (6) has them in a row."""


def in_arrow(unit: str, times: Times) -> tuple[bytes, RowFormat]:
    kind: Any = pa.timestamp(unit)
    written = pa.schema([TABLE.field("id"), pa.field("at", kind)])
    columns: list[Any] = [pa.array(range(len(times)), pa.int64()), pa.array(times, pa.int64()).view(kind)]
    return record_batch(pa.RecordBatch.from_arrays(columns, schema=written), 0), RowFormat(TABLE, False, {1: schema_json(written)})


def in_rows(encoding: RowEncoding, times: Sequence[tuple[int, int] | None]) -> tuple[bytes, RowFormat]:
    rows = [encode_row(TABLE.types, (number, time), encoding) for number, time in enumerate(times)]
    data = packed_record_batch(rows, [ChangeType.INSERT] * len(rows))
    return data, RowFormat(TABLE, True, {1: schema_json(TABLE)}, encoding)


def check_records(data: bytes, row_format: RowFormat, expected: Times) -> None:
    """A reader that begins anew behind each record that stops it gets all others. `expected`: microseconds, of any number of bits."""
    chunk = LogChunk(content := pa.py_buffer(data), list(complete_batches(content, (0, 0), len(expected), PLACE)), PLACE)
    read: dict[int, int | None] = {}
    stopped, start = [], 0
    while start < len(expected):
        try:
            for batch in rows_of([chunk], TieringLogSplit(PATH, BUCKET, None, start, len(expected), len(expected)), row_format):
                offsets: Any = batch.column("__offset").to_pylist()
                read |= zip(offsets, batch.column("at").view(pa.int64()).to_pylist(), strict=True)
            break
        except BucketStopped as error:
            stopped.append((error.ids["column"], int(error.ids["offset"])))
            start = stopped[-1][1] + 1
    far = [offset for offset, time in enumerate(expected) if time is not None and not LOWEST <= time <= HIGHEST]
    assert stopped == [("at", offset) for offset in far]
    assert read == {offset: time for offset, time in enumerate(expected) if offset not in far}


def check_arrow(drawn: tuple[str, Times]) -> None:
    unit, times = drawn
    check_records(*in_arrow(unit, times), [None if time is None else time * MICROSECONDS[unit] for time in times])


def check_packed(encoding: RowEncoding, times: list[tuple[int, int] | None]) -> None:
    expected = [None if time is None else time[0] * 1_000 + time[1] // 1_000 for time in times]
    check_records(*in_rows(encoding, times), expected)


ENCODINGS = st.sampled_from(RowEncoding)
drawn = settings(max_examples=examples(20), phases=[Phase.generate])

test_times_in_arrow_batches = drawn(given(arrow_times())(check_arrow))
test_times_in_packed_rows = drawn(given(ENCODINGS, PACKED_TIMES)(check_packed))


def test_the_draws_find_that_a_cast_fails_for_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "cast_values", lambda column, field: column.cast(field.type))
    with pytest.raises(pa.ArrowInvalid):
        drawn(given(arrow_times())(check_arrow))()


def test_the_draws_find_times_that_wrap_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_rows, "_FIRST_MS", LOWEST - 1)
    monkeypatch.setattr(packed_rows, "_LAST_MS", HIGHEST + 1)
    with pytest.raises(AssertionError):
        drawn(given(ENCODINGS, PACKED_TIMES)(check_packed))()
