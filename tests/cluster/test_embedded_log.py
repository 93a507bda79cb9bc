"""The embedded log: dense offsets, exactly-once appends, scans of exactly the range that was asked for."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.embedded import PATH, SCHEMA, ManualClock, all_threads, make_table, orders, scan, scan_all, split_of
from tiering.cluster.base import SplitReader
from tiering.cluster.embedded.base import AppendedRange, EmbeddedCluster
from tiering.cluster.embedded.reader import TARGET_BATCH_ROWS, open_reader
from tiering.cluster.embedded.service import SEGMENTS_PER_PAGE
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.embedded.writer import LogWriter
from tiering.errors import Fenced, InvalidArgument, InvalidData, LogTruncated, UnknownTable
from tiering.model import BucketKey, BucketOffsets, RecordedLakeSnapshot, TableInfo, TableType

B0 = BucketKey(None, 0)


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends become segments of three rows or so; thousands of them need not be synced here."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("tiering.cluster.embedded.segments.MAX_SEGMENT_BYTES", 48)


def test_rows_come_back_with_bucket_offset_and_commit_time(cluster: EmbeddedCluster, clock: ManualClock) -> None:
    table = make_table(cluster)
    first = clock.time
    cluster.append(PATH, orders(0, 3), "writer", 0)
    second = clock.advance(1.5)
    cluster.append(PATH, orders(3, 2), "writer", 1)

    rows = scan(cluster, table, 0, 0, 5)

    assert rows.schema == table.lake_schema()
    assert rows.select(["id", "city"]) == pa.Table.from_batches([orders(0, 5)])
    assert rows["__bucket"].to_pylist() == [0] * 5
    assert rows["__offset"].to_pylist() == [0, 1, 2, 3, 4]
    assert rows["__timestamp"].to_pylist() == [first] * 3 + [second] * 2


def test_offsets_tell_start_end_and_size(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, bucket_count=2)
    assert cluster.offsets(table) == {B0: BucketOffsets(0, 0), BucketKey(None, 1): BucketOffsets(0, 0)}

    cluster.append(PATH, orders(0, 1_000), "writer", 0)

    filled = {key: bounds for key, bounds in cluster.offsets(table).items() if bounds.log_end}
    assert [(bounds.log_start, bounds.log_end) for bounds in filled.values()] == [(0, 1_000)]
    assert 8 < next(iter(filled.values())).bytes_per_record < 100


def test_no_rows_get_no_ranges(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    assert list(cluster.append(PATH, orders(0, 0), "writer", 0)) == []
    assert scan_all(cluster, table).num_rows == 0


def test_a_repeated_append_returns_the_first_answer(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, bucket_count=3, bucket_keys=("id",))
    first = cluster.append(PATH, orders(0, 20), "writer", 0)
    cluster.append(PATH, orders(20, 5), "writer", 1)
    assert sum(r.stopping_offset - r.starting_offset for r in first) == 20

    assert list(cluster.append(PATH, orders(0, 20), "writer", 0)) == list(first)

    assert sorted(scan_all(cluster, table)["id"].to_pylist()) == list(range(25))


def test_another_writer_or_number_is_another_append(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    for writer, sequence in (("a", 0), ("b", 0), ("a", 1)):
        cluster.append(PATH, orders(0, 2), writer, sequence)
    assert scan_all(cluster, table)["id"].to_pylist() == [0, 1] * 3


def test_a_number_used_again_for_other_rows_is_refused(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    cluster.append(PATH, orders(0, 2), "writer", 0)
    with pytest.raises(InvalidArgument, match="'writer'"):
        cluster.append(PATH, orders(1, 2), "writer", 0)
    assert scan_all(cluster, table).num_rows == 2


@pytest.mark.parametrize(("writer", "sequence"), [("", 0), ("w" * 201, 0), ("writer", -1)])
def test_appends_need_a_writer_id_and_a_number(cluster: EmbeddedCluster, writer: str, sequence: int) -> None:
    make_table(cluster)
    with pytest.raises(InvalidArgument, match="writer id"):
        cluster.append(PATH, orders(0, 1), writer, sequence)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (pa.table({"id": [1]}), "'city' is missing"),
        (pa.table({"id": [1], "city": ["a"], "more": [1]}), "no column 'more'"),
        (pa.table({"id": ["1"], "city": ["a"]}), "'id' is string; the table has int64"),
        (pa.table({"id": pa.array([1], pa.int32()), "city": ["a"]}), "'id' is int32"),
        (pa.table({"id": pa.array([None], pa.int64()), "city": ["a"]}), "'id' has a null"),
        (pa.table([[1], [2], ["a"]], names=["id", "id", "city"]), "'id' is there twice"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_the_column(cluster: EmbeddedCluster, rows: pa.Table, reason: str) -> None:
    table = make_table(cluster)
    with pytest.raises(InvalidData, match=reason):
        cluster.append(PATH, rows, "writer", 0)
    assert scan_all(cluster, table).num_rows == 0


def test_columns_are_matched_by_name_and_layout_forms_accepted(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    chunked = pa.chunked_array([["a"], ["b"]], pa.large_string())
    cluster.append(PATH, pa.table({"city": chunked, "id": pa.chunked_array([[1], [2]])}), "writer", 0)
    assert scan_all(cluster, table).select(["id", "city"]).to_pylist() == [{"id": 1, "city": "a"}, {"id": 2, "city": "b"}]


def test_appending_to_a_dropped_table_is_an_error(cluster: EmbeddedCluster) -> None:
    make_table(cluster)
    cluster.drop_table(PATH)
    with pytest.raises(UnknownTable):
        cluster.append(PATH, orders(0, 1), "writer", 0)


def test_appends_without_a_bucket_key_go_round_the_buckets(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, bucket_count=3)
    for sequence in range(6):
        cluster.append(PATH, orders(sequence, 1), "writer", sequence)
    assert [bounds.log_end for bounds in cluster.offsets(table).values()] == [2, 2, 2]


def test_two_writers_at_once_lose_and_double_nothing(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, bucket_count=2, bucket_keys=("id",))

    def write(first: int) -> None:
        for number in range(15):
            rows = orders(first + number * 10, 10)
            for _ in range(2):  # every append twice
                cluster.append(PATH, rows, f"writer {first}", number)

    all_threads([lambda: write(0), lambda: write(1_000)])

    rows = scan_all(cluster, table)
    assert sorted(rows["id"].to_pylist()) == [*range(150), *range(1_000, 1_150)]
    for bucket, bounds in cluster.offsets(table).items():
        own = [row["__offset"] for row in rows.to_pylist() if row["__bucket"] == bucket.bucket_id]
        assert own == list(range(bounds.log_end))


def test_one_append_sent_by_many_at_once_lands_once(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    table = make_table(cluster)
    answers: list[list[AppendedRange]] = []
    all_threads([lambda: answers.append(list(cluster.append(PATH, orders(0, 5), "writer", 0)))] * 6)

    assert answers == [[AppendedRange(B0, 0, 5)]] * 6
    assert scan_all(cluster, table).num_rows == 5
    assert len(list((tmp_path / "cluster").rglob("*.arrow"))) == 1


def test_commit_times_never_go_back_in_a_bucket(cluster: EmbeddedCluster, clock: ManualClock) -> None:
    table = make_table(cluster)
    first = clock.time
    cluster.append(PATH, orders(0, 1), "writer", 0)
    clock.advance(-3_600)
    cluster.append(PATH, orders(1, 1), "writer", 1)
    assert scan_all(cluster, table)["__timestamp"].to_pylist() == [first, first]


def test_oldest_timestamps_are_of_the_record_at_the_offset(cluster: EmbeddedCluster, clock: ManualClock) -> None:
    table = make_table(cluster)
    times = []
    for number in range(3):
        times.append(clock.advance(10))
        cluster.append(PATH, orders(number * 2, 2), "writer", number)

    found = [cluster.oldest_timestamps(table, {B0: offset}).get(B0) for offset in range(7)]

    assert found == [times[0], times[0], times[1], times[1], times[2], times[2], None]
    assert cluster.oldest_timestamps(table, {}) == {}


@pytest.mark.parametrize(("start", "stop"), [(0, 11), (-1, 3), (5, 4)])
def test_a_range_outside_of_the_log_is_refused(cluster: EmbeddedCluster, start: int, stop: int) -> None:
    table = make_table(cluster)
    cluster.append(PATH, orders(0, 10), "writer", 0)
    with pytest.raises(InvalidArgument, match="ends at 10"):
        cluster.reader(table, split_of(table, 0, start, stop))


def test_a_bucket_that_is_not_there_is_refused(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    with pytest.raises(InvalidArgument, match="bucket 4, which does not exist"):
        cluster.reader(table, split_of(table, 4, 0, 0))


def test_a_log_that_starts_later_is_truncated_not_skipped() -> None:
    table = TableInfo(1, PATH, TableType.LOG, SCHEMA, 1, datetime(2024, 1, 1, tzinfo=UTC))
    with pytest.raises(LogTruncated, match="starts at offset 5, after 3"):
        open_reader(table, split_of(table, 0, 3, 9), BucketOffsets(5, 10), lambda *_: ("", ()))


def test_readers_pickle_and_need_no_cluster(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    cluster.append(PATH, orders(0, 10), "writer", 0)

    reader = pickle.loads(pickle.dumps(cluster.reader(table, split_of(table, 0, 2, 7))))

    assert isinstance(reader, SplitReader)
    assert reader.split == split_of(table, 0, 2, 7)
    assert pa.Table.from_batches(reader.read())["id"].to_pylist() == [2, 3, 4, 5, 6]
    assert [batch.num_rows for batch in reader.read()] == [5]


@pytest.mark.usefixtures("small_segments")
def test_two_thousand_small_segments_become_few_batches(cluster: EmbeddedCluster, storage: EmbeddedStorage) -> None:
    table = make_table(cluster)
    cluster.append(PATH, orders(0, 6_000), "writer", 0)
    assert len(storage.log.segments(table.table_id, B0, 0, 6_000)) >= 2_000

    batches = list(cluster.reader(table, split_of(table, 0, 1, 5_999)).read())

    assert len(batches) == 1
    assert batches[0]["__offset"].to_pylist() == batches[0]["id"].to_pylist() == list(range(1, 5_999))


@pytest.mark.usefixtures("small_segments")
def test_more_segments_than_one_message_holds(cluster: EmbeddedCluster, storage: EmbeddedStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(cluster)
    monkeypatch.setattr("tiering.cluster.embedded.service.SEGMENTS_PER_PAGE", 7)
    cluster.append(PATH, orders(0, 90), "writer", 0)
    assert len(storage.log.segments(table.table_id, B0, 0, 90)) >= 30

    assert scan(cluster, table, 0, 2, 89)["id"].to_pylist() == list(range(2, 89))
    assert SEGMENTS_PER_PAGE * 150 < 4 * 1024 * 1024


def test_large_appends_are_cut_and_read_in_large_batches(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    writer = LogWriter(cluster, PATH, "writer")
    rows = orders(0, 400_000)

    ranges = writer.append(rows)

    assert writer.sequence == len(ranges) > 1
    batches = list(cluster.reader(table, split_of(table, 0, 0, 400_000)).read())
    assert pa.Table.from_batches(batches).select(["id", "city"]) == pa.Table.from_batches([rows])
    assert all(batch.num_rows >= TARGET_BATCH_ROWS // 2 for batch in batches[:-1])


def test_a_row_larger_than_a_message_is_refused(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    rows = pa.table({"id": [1, 2], "city": ["small", "x" * 4_000_000]}, schema=SCHEMA)
    with pytest.raises(InvalidData, match="one row has 40000"):
        LogWriter(cluster, PATH, "writer").append(rows)
    assert scan_all(cluster, table).num_rows <= 1


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    repeats=st.lists(st.integers(0, 11), max_size=8),
    data=st.data(),
)
def test_any_scan_is_the_rows_appended(storage: EmbeddedStorage, sizes: list[int], repeats: list[int], data: st.DataObject) -> None:
    if PATH in [table.path for table in storage.tables()]:
        storage.drop_table(PATH)
    table = make_table(storage)
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    answers = {}
    for number, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        answers[number] = storage.append(PATH, orders(start, size), "writer", number)
        for repeat in repeats:
            if repeat <= number:
                assert storage.append(PATH, orders(starts[repeat], sizes[repeat]), "writer", repeat) == answers[repeat]

    total = sum(sizes)
    start = data.draw(st.integers(0, total))
    stop = data.draw(st.integers(start, total))
    rows = scan(storage, table, 0, start, stop)
    assert rows["id"].to_pylist() == rows["__offset"].to_pylist() == list(range(start, stop))


def test_the_lake_record_is_kept_and_repeats_are_harmless(cluster: EmbeddedCluster, storage: EmbeddedStorage) -> None:
    table = make_table(cluster)
    assert cluster.lake_snapshot(table) is None
    first = RecordedLakeSnapshot(7, {B0: 5})
    for _ in range(2):
        storage.record_lake_snapshot(table, first)
        assert cluster.lake_snapshot(table) == first

    storage.record_lake_snapshot(table, RecordedLakeSnapshot(6_000_000_000_000_000_000, {B0: 8}))
    assert cluster.lake_snapshot(table) == RecordedLakeSnapshot(6_000_000_000_000_000_000, {B0: 8})


@pytest.mark.parametrize("offsets", [{B0: 4}, {}])
def test_the_lake_record_never_goes_back(storage: EmbeddedStorage, offsets: dict[BucketKey, int]) -> None:
    table = make_table(storage)
    storage.record_lake_snapshot(table, RecordedLakeSnapshot(7, {B0: 5}))
    with pytest.raises(Fenced, match="bucket 0, from offset 5 to"):
        storage.record_lake_snapshot(table, RecordedLakeSnapshot(8, offsets))
    assert storage.lake_snapshot(table) == RecordedLakeSnapshot(7, {B0: 5})


def test_the_lake_record_of_a_dropped_table_is_refused(storage: EmbeddedStorage) -> None:
    table = make_table(storage)
    storage.drop_table(PATH)
    with pytest.raises(UnknownTable):
        storage.record_lake_snapshot(table, RecordedLakeSnapshot(7, {B0: 5}))
    assert storage.lake_snapshot(make_table(storage)) is None
