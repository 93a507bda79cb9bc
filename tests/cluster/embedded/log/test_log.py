"""The embedded log: dense offsets and exactly-once appends."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.embedded import (
    DAYS,
    PATH,
    SCHEMA,
    EmbeddedCluster,
    ManualClock,
    all_threads,
    days,
    make_table,
    orders,
    scan,
    scan_all,
)
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import AppendedRange
from tiering.errors import InvalidArgument, InvalidData, UnknownTable
from tiering.model.tables import BucketKey, BucketOffsets, TablePath

B0 = BucketKey(None, 0)


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
    size = next(iter(filled.values())).bytes_per_record
    assert size is not None
    assert 8 < size < 100


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
        (pa.table([[1], [2], ["a"]], names=["id", "id", "city"]), "'id' occurs twice"),
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

    answers = [cluster.oldest_timestamps(table, {B0: offset}).get(B0) for offset in range(7)]

    assert answers == [times[0], times[0], times[1], times[1], times[2], times[2], None]
    assert cluster.oldest_timestamps(table, {}) == {}


def test_offsets_of_many_tables_are_those_of_each(cluster: EmbeddedCluster) -> None:
    empty, filled, dropped = (make_table(cluster, bucket_count=2, path=TablePath("many", name)) for name in ("empty", "filled", "dropped"))
    partitioned = make_table(cluster, path=TablePath("many", "days"), schema=DAYS, partition_keys=("day",), bucket_count=3)
    none_yet = make_table(cluster, path=TablePath("many", "later"), schema=DAYS, partition_keys=("day",))
    cluster.append(filled.path, orders(0, 5), "writer", 0)
    cluster.append(partitioned.path, days((1, "eu", "2024-01-31"), (2, "us", "2024-02-01")), "writer", 0)
    cluster.drop_table(dropped.path)
    living = [none_yet, partitioned, empty, filled]

    answers = cluster.offsets_of([dropped, *living])

    assert answers == {table.table_id: cluster.offsets(table) for table in living}
    assert [list(answers[table.table_id]) for table in living] == [list(cluster.offsets(table)) for table in living]
    assert [len(answers[table.table_id]) for table in living] == [0, 6, 2, 2]
    assert cluster.offsets_of([]) == cluster.offsets_of([dropped]) == {}


def test_a_row_larger_than_a_message_is_refused(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    rows = pa.table({"id": [1, 2], "city": ["small", "x" * 4_000_000]}, schema=SCHEMA)
    with pytest.raises(InvalidData, match="one row has 40000"):
        LogWriter(cluster, PATH, "writer").append(rows)
    assert scan_all(cluster, table).num_rows <= 1
