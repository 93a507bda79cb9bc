"""Batches of a stream: every row is in exactly one batch, whatever the sizes of batches are and however the table changes meanwhile."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.errors import InvalidArgument, LogBehindLake, LogTruncated, TableMismatch
from tiering.model.tables import BucketKey, BucketOffsets, TableInfo, TablePath, TableType
from tiering.union_read.streams.offsets import BEGINNING, LakePart, StreamOffset, decode, encode
from tiering.union_read.streams.planning import (
    MAX_VANISHED,
    Batch,
    BatchLimit,
    batch_between,
    begin_at,
    check_continues,
    divided,
    next_offset,
)

TABLE = TableInfo(
    7, TablePath("sales", "orders"), TableType.LOG, pa.schema([pa.field("id", pa.int64())]), 3, datetime(2026, 1, 1, tzinfo=UTC)
)
B0, B1 = BucketKey(None, 0), BucketKey(None, 1)
SOME_BUCKETS = [B0, BucketKey(17, 0), BucketKey(17, 1), BucketKey(18, 0)]
NUMBERS = st.integers(0, 2**62)
BUCKETS = st.builds(BucketKey, st.none() | NUMBERS, st.integers(0, 2**31 - 1))
LAKE_PARTS = st.builds(LakePart, st.integers(-(2**62), 2**62), NUMBERS, NUMBERS)
OF_BUCKETS = st.dictionaries(BUCKETS, NUMBERS, max_size=5)
OFFSETS = st.builds(StreamOffset, NUMBERS, OF_BUCKETS, st.none() | LAKE_PARTS, vanished=OF_BUCKETS)
WHOLE = BatchLimit()


def log(**ends: tuple[int, int]) -> dict[BucketKey, BucketOffsets]:
    return {BucketKey.parse(name.removeprefix("b").replace("_", "/")): BucketOffsets(*bounds) for name, bounds in ends.items()}


def rows_of(batch: Batch) -> list[tuple[object, int]]:
    """Names of the files and records that a batch reads."""
    records = [(bucket, offset) for bucket, bounds in batch.ranges.items() for offset in range(*bounds)]
    return [*(("file", number) for number in range(*batch.files)), *records]


@given(OFFSETS, st.none() | OFFSETS)
def test_an_offset_is_read_back_from_its_json(offset: StreamOffset, begin: StreamOffset | None) -> None:
    offset = replace(offset, begin=begin)
    assert decode(encode(offset)) == offset
    reordered = replace(offset, buckets=dict(reversed(offset.buckets.items())), vanished=dict(reversed(offset.vanished.items())))
    assert encode(reordered) == encode(offset)


def test_the_beginning_has_a_json_of_its_own() -> None:
    assert decode(BEGINNING) is None
    assert decode(None) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "7", '{"v":2,"table_id":1,"buckets":{}}', '{"v":1,"table_id":1}', '{"v":1,"table_id":1,"buckets":{"x":1}}'),
        *(f'{{"v":1,"table_id":1,"buckets":{{"0":{value}}}}}' for value in ("-1", "true", '"1"', "1.5", "null")),
        *("[" * 10_000, '{"v":1,"table_id":1,"buckets":{},"begin":' * 10_000, '{"v":1,"table_id":1,"buckets":{},"vanished":[5]}'),
    ],
    ids=lambda text: text[:40],
)
def test_other_text_is_not_an_offset(text: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be read"):
        decode(text)


@given(st.dictionaries(st.sampled_from(SOME_BUCKETS), st.integers(0, 10**6)), st.integers(0, 10**6))
def test_a_limit_is_divided_over_the_backlogs(backlogs: dict[BucketKey, int], records: int) -> None:
    shares = divided(backlogs, records)

    assert all(0 <= shares[bucket] <= backlog for bucket, backlog in backlogs.items())
    assert sum(shares.values()) == min(records, sum(backlogs.values()))
    if records >= len(backlogs):
        assert all(shares[bucket] for bucket, backlog in backlogs.items() if backlog)


@given(st.data())
def test_any_split_of_batches_reads_every_row_once(data: st.DataObject) -> None:
    files = data.draw(st.lists(st.integers(0, 20), max_size=6), "records of lake files")
    begins = data.draw(st.dictionaries(st.sampled_from(SOME_BUCKETS), st.integers(0, 20)), "log part begins")
    begin = StreamOffset(7, begins, LakePart(99, len(files)) if files else None)
    ends = dict(begins)
    read: Counter[tuple[object, int]] = Counter()
    offset: StreamOffset | None = None
    for _ in range(data.draw(st.integers(1, 8), "batches")):
        for bucket in data.draw(st.lists(st.sampled_from(SOME_BUCKETS)), "appends"):  # a bucket that is new begins at 0
            ends[bucket] = ends.get(bucket, 0) + data.draw(st.integers(0, 15))
        limit = BatchLimit(data.draw(st.none() | st.integers(1, 25), "limit"))
        unlisted = data.draw(st.sets(st.sampled_from(SOME_BUCKETS)), "not listed")
        listed = {bucket: end for bucket, end in ends.items() if bucket not in unlisted}
        offset, batch = _read(begin, offset, listed, files, limit)
        read.update(rows_of(batch))
    _, batch = _read(begin, offset, ends, files, WHOLE)
    read.update(rows_of(batch))

    records = [(bucket, number) for bucket, stop in ends.items() for number in range(begins.get(bucket, 0), stop)]
    assert read == Counter([*(("file", number) for number in range(len(files))), *records])


def _read(
    begin: StreamOffset, offset: StreamOffset | None, ends: dict[BucketKey, int], files: list[int], limit: BatchLimit
) -> tuple[StreamOffset, Batch]:
    """Plans and reads a batch as a restarted query does: all that it has is the JSON of its checkpoint."""
    start = decode(None if offset is None else encode(offset))
    position = start or begin
    unread = [] if position.lake is None else files[position.lake.files_done :]
    end = next_offset(position, {bucket: BucketOffsets(0, stop) for bucket, stop in ends.items()}, unread, limit)
    if start is None:
        end = replace(end, begin=begin)
    batch = batch_between(decode(None if offset is None else encode(offset)), end)
    repeated = batch_between(start, decode(encode(end)) or end)
    assert repeated == batch
    records = sum(stop - first for first, stop in batch.ranges.values()) + sum(files[batch.files[0] : batch.files[1]])
    assert limit.max_records is None or records <= max(limit.max_records, files[batch.files[0]] if batch.files[1] > batch.files[0] else 0)
    return end, batch


@given(st.data())
def test_a_stream_with_an_end_stops_there(data: st.DataObject) -> None:
    ends = data.draw(st.dictionaries(st.sampled_from(SOME_BUCKETS), st.integers(0, 30)))
    offset = begin = StreamOffset(7, {})
    last = next_offset(begin, {bucket: BucketOffsets(0, stop) for bucket, stop in ends.items()}, [], WHOLE)
    grown = dict.fromkeys(SOME_BUCKETS, BucketOffsets(0, 50))
    read: Counter[tuple[object, int]] = Counter()
    while (end := next_offset(offset, grown, [], BatchLimit(data.draw(st.integers(1, 20)), last))) != offset:
        read.update(rows_of(batch_between(offset, end)))
        offset = end

    assert read == Counter((bucket, number) for bucket, stop in ends.items() for number in range(stop))


def test_the_offset_of_a_bucket_that_is_not_listed_is_kept_for_its_return() -> None:
    start = StreamOffset(7, {BucketKey(17, 0): 5, BucketKey(18, 0): 2})
    left = log(b18_0=(0, 3))

    check_continues(TABLE, start, left, fail_on_data_loss=False)
    end = next_offset(start, left, [], WHOLE)
    assert end == StreamOffset(7, {BucketKey(18, 0): 3}, vanished={BucketKey(17, 0): 5})
    assert next_offset(end, left, [], WHOLE) == end
    returned = next_offset(end, log(b17_0=(0, 9), b18_0=(0, 3)), [], WHOLE)
    assert returned == StreamOffset(7, {BucketKey(17, 0): 9, BucketKey(18, 0): 3})
    assert batch_between(end, returned).ranges == {BucketKey(17, 0): (5, 9)}
    with pytest.raises(LogTruncated, match=r"bucket 17/0 .* up to offset 5, .* starts at 6"):
        check_continues(TABLE, end, log(b17_0=(6, 9), b18_0=(0, 3)), fail_on_data_loss=False)
    check_continues(TABLE, end, left, fail_on_data_loss=True)
    with pytest.raises(LogTruncated, match=r"partition of bucket 17/0 .* offset 5"):
        check_continues(TABLE, start, left, fail_on_data_loss=True)


def test_an_offset_keeps_a_bounded_number_of_vanished_buckets_those_of_the_newest_partitions() -> None:
    start = StreamOffset(7, {BucketKey(partition, 0): 1 for partition in range(MAX_VANISHED + 5)})
    end = next_offset(start, {}, [], WHOLE)
    assert [bucket.partition_id for bucket in end.vanished] == list(range(5, MAX_VANISHED + 5))


@pytest.mark.parametrize("fail_on_data_loss", [False, True])
def test_a_log_that_was_cut_behind_the_stream_is_an_error_with_the_offsets(fail_on_data_loss: bool) -> None:
    start = StreamOffset(7, {B0: 5, B1: 4})
    with pytest.raises(LogTruncated, match=r"bucket 1 .* up to offset 4, .* starts at 6: records 4 to 5"):
        check_continues(TABLE, start, log(b0=(5, 9), b1=(6, 9)), fail_on_data_loss=fail_on_data_loss)


def test_a_new_bucket_whose_first_records_are_gone_is_an_error() -> None:
    with pytest.raises(LogTruncated, match=r"bucket 18/0 .* up to offset 0, .* starts at 2"):
        check_continues(TABLE, StreamOffset(7, {}), log(b18_0=(2, 9)), fail_on_data_loss=False)


def test_a_log_that_ends_before_the_stream_is_an_error() -> None:
    with pytest.raises(LogBehindLake, match=r"up to offset 5, but the log ends at 4"):
        check_continues(TABLE, StreamOffset(7, {B0: 5}), log(b0=(0, 4)), fail_on_data_loss=False)


def test_a_recreated_table_is_an_error() -> None:
    with pytest.raises(TableMismatch, match=r"table id 6, now it is 7"):
        check_continues(TABLE, StreamOffset(6, {B0: 0}), log(b0=(0, 4)), fail_on_data_loss=False)


def test_a_stream_begins_at_the_latest_or_at_named_offsets() -> None:
    now = log(b0=(2, 9), b1=(0, 4))

    assert begin_at(TABLE, "latest", now).buckets == {B0: 9, B1: 4}
    assert begin_at(TABLE, '{"0": -2, "1": 3}', now).buckets == {B0: 2, B1: 3}
    assert begin_at(TABLE, '{"0": -1, "1": 0}', now).buckets == {B0: 9, B1: 0}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("newest", "is earliest, latest or JSON"),
        ("{}", "is earliest, latest or JSON"),
        ('{"0": "1", "1": 0}', "is earliest, latest or JSON"),
        ('{"0": 3}', "lacks the buckets 1"),
        ('{"0": 3, "1": 0, "2": 0}', "do not exist: 2"),
        ('{"0": 1, "1": 0}', "offset 1 of bucket 0 .* offsets 2 to 9"),
        ('{"0": 10, "1": 0}', "offset 10 of bucket 0 .* offsets 2 to 9"),
    ],
)
def test_other_starting_offsets_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        begin_at(TABLE, text, log(b0=(2, 9), b1=(0, 4)))


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (StreamOffset(7, {B0: 5}), StreamOffset(7, {B0: 4})),
        (StreamOffset(7, {B0: 5}), StreamOffset(8, {B0: 5})),
        (StreamOffset(7, {B0: 5}), StreamOffset(7, {B0: 5}, LakePart(1, 4, 2))),
        (StreamOffset(7, {}, LakePart(1, 4, 3)), StreamOffset(7, {}, LakePart(1, 4, 2))),
        (StreamOffset(7, {}, LakePart(1, 4, 1)), StreamOffset(7, {}, LakePart(2, 4, 2))),
        (None, StreamOffset(7, {B0: 5})),
    ],
)
def test_offsets_that_do_not_follow_each_other_are_refused(start: StreamOffset | None, end: StreamOffset) -> None:
    with pytest.raises(InvalidArgument):
        batch_between(start, end)
