"""Record batches that the client of Fluss 1.0 wrote with its own classes: Lakeward reads exactly their rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.clusters.fluss_log import MAGIC_PLACE, UNPROTECTED_BYTES, VERSIONS, schema_json
from support.fluss_client.client_jar import COMPRESSIONS, FlussFormats
from support.values.any_values import bits
from support.values.fluss_values import ARROW_TYPES, ROW_TYPES, fluss_rows
from tiering.cluster.fluss.log.batches import LogPlace, complete_batches, decode_batch, read_header
from tiering.cluster.fluss.log.packed_rows import RowEncoding
from tiering.cluster.fluss.log.rows import LogChunk, RowFormat, rows_of
from tiering.errors import DataCorrupt, UnsupportedLogVersion
from tiering.library_guards.arrow_ipc import BodyReader
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, TablePath

PATH, BUCKET = TablePath("sales", "orders"), BucketKey(None, 3)
PLACE = LogPlace(PATH, BUCKET, "tablet-1:9123")
MAX_BYTES = 1 << 30


def change_types(count: int) -> st.SearchStrategy[list[int] | None]:
    return st.none() | st.lists(st.integers(0, 4), min_size=count, max_size=count)


def read(data: bytes, schema: pa.Schema, stop: int, has_changes: bool, encoding: RowEncoding | None = None) -> pa.Table:
    content = pa.py_buffer(data)
    chunk = LogChunk(content, list(complete_batches(content, (0, 0), stop, PLACE)), PLACE)
    row_format = RowFormat(schema, has_changes, {1: schema_json(schema)}, encoding)
    return pa.Table.from_batches(rows_of([chunk], TieringLogSplit(PATH, BUCKET, None, 0, stop, stop), row_format), row_format.read_schema)


def assert_same(table: pa.Table, expected: Sequence[pa.RecordBatch], one_nan: bool = False) -> None:
    """Compares the columns bit by bit. `one_nan`: all NaNs are equal, because the client stores one for all within lists."""
    whole = pa.Table.from_batches(expected)
    for name in whole.column_names:
        assert bits(table[name].combine_chunks(), one_nan) == bits(whole[name].combine_chunks(), one_nan), name


@given(st.data())
def test_what_the_client_wrote_is_read(formats: FlussFormats, data: st.DataObject) -> None:
    whole = data.draw(fluss_rows(ARROW_TYPES))
    kinds = data.draw(change_types(whole.num_rows))
    log, expected, offsets, end = b"", [], [], 0
    for version in data.draw(st.lists(st.sampled_from(VERSIONS), min_size=1, max_size=4)):
        part = whole.slice(data.draw(st.integers(0, whole.num_rows)))
        log += formats.batch(
            part,
            end,
            version,
            commit_ms=1_000 + version,
            change_types=None if kinds is None else kinds[: part.num_rows],
            compression=data.draw(st.sampled_from(COMPRESSIONS)),
            has_statistics=version > 0 and data.draw(st.booleans()),
        )
        expected.append(part)
        offsets += [(end + place, 1_000 + version, 0 if kinds is None else kinds[place]) for place in range(part.num_rows)]
        end += max(part.num_rows, 1)
    table = read(log, whole.schema, end, has_changes=True)
    assert_same(table, expected)
    times = table["__timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
    assert list(zip(table["__offset"].to_pylist(), times, table["__change_type"].to_pylist(), strict=True)) == offsets


@pytest.mark.parametrize("encoding", list(RowEncoding))
@given(data=st.data())
def test_packed_rows_are_read(formats: FlussFormats, encoding: RowEncoding, data: st.DataObject) -> None:
    """The client has no statistics for logs in these formats."""
    whole, version = data.draw(fluss_rows(ROW_TYPES, least=1)), data.draw(st.sampled_from(VERSIONS))
    kinds = data.draw(st.lists(st.integers(0, 4), min_size=whole.num_rows, max_size=whole.num_rows))
    log = formats.packed(whole, kinds, encoding, version)
    table = read(log, whole.schema, whole.num_rows, has_changes=True, encoding=encoding)
    assert_same(table, [whole], one_nan=True)
    assert table["__change_type"].to_pylist() == kinds


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_what_a_server_projected_is_read(formats: FlussFormats, version: int, data: st.DataObject) -> None:
    """The server keeps the checksum of the whole record batch, so a projected one is never taken for a whole one."""
    whole = data.draw(fluss_rows(ARROW_TYPES, least=1))
    kinds, compression = data.draw(change_types(whole.num_rows)), data.draw(st.sampled_from(COMPRESSIONS))
    places = sorted(data.draw(st.sets(st.integers(0, whole.num_columns - 1), min_size=1)))
    options: dict[str, Any] = {"commit_ms": 5, "change_types": kinds, "compression": compression}
    log = formats.batch(whole, 40, version, has_statistics=version > 0, **options)

    content = pa.py_buffer(formats.projected(log, whole.schema, places, compression))

    header = read_header(content, 0, PLACE, 40)
    assert header is not None
    assert (header.starting_offset, header.stopping_offset, header.commit_ms) == (40, 40 + whole.num_rows, 5)
    assert header.size == len(content)
    part = whole.select(places)
    batch = decode_batch(content, header, BodyReader(part.schema, MAX_BYTES), PLACE)
    assert_same(pa.Table.from_batches([batch.rows]), [part])
    assert (None if batch.change_types is None else batch.change_types.tolist()) == kinds
    if len(content) != len(log):
        with pytest.raises(DataCorrupt, match="checksum"):
            list(complete_batches(content, (40, 40), 41, PLACE))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("has_statistics", [False, True])
def test_empty_record_batches_move_offsets(formats: FlussFormats, version: int, has_statistics: bool) -> None:
    some = pa.record_batch({"n": pa.array([1, 2])})
    parts = [
        formats.batch(part, start, version, commit_ms=5, has_statistics=has_statistics and version > 0)
        for part, start in ((some.slice(2), 0), (some, 1), (some.slice(2), 3))
    ]
    content = pa.py_buffer(b"".join(parts))
    headers = list(complete_batches(content, (0, 0), 4, PLACE))
    assert [(header.starting_offset, header.stopping_offset, header.count) for header in headers] == [(0, 1, 0), (1, 3, 2), (3, 4, 0)]
    assert read(content.to_pybytes(), some.schema, 4, has_changes=False)["__offset"].to_pylist() == [1, 2]


@given(st.data())
def test_no_flipped_bit_makes_another_row(formats: FlussFormats, data: st.DataObject) -> None:
    """Only the commit time and the leader epoch are outside of what is checked. A longer length makes a batch incomplete."""
    version = data.draw(st.sampled_from(VERSIONS))
    whole = data.draw(fluss_rows(ARROW_TYPES, least=1, columns_at_most=2))
    kinds = data.draw(change_types(whole.num_rows))
    log = bytearray(formats.batch(whole, 0, version, commit_ms=5, change_types=kinds, has_statistics=version > 0))
    place = data.draw(st.integers(0, len(log) - 1).filter(lambda place: place not in UNPROTECTED_BYTES[version]))
    log[place] ^= 1 << data.draw(st.integers(0, 7))
    expected = DataCorrupt if log[MAGIC_PLACE] in VERSIONS else UnsupportedLogVersion
    became_longer = 8 <= place < 12
    with suppress(DataCorrupt) if became_longer else pytest.raises(expected):
        assert read(bytes(log), whole.schema, whole.num_rows, has_changes=True).num_rows == 0
