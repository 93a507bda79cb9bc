"""Partitions of the embedded cluster: they come with their rows, go when dropped, and an id is never used again."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy as sa

from support.clusters.embedded import DAYS, PATH, EmbeddedCluster, ManualClock, days, make_table, orders, scan, scan_all, split_of
from tiering.cluster.embedded.log import segments
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import DataCorrupt, InvalidArgument, InvalidData, SourceChanged, UnknownPartition, UnknownTable
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableInfo

KEYS = ("region", "day")


def partitioned(cluster: EmbeddedCluster, bucket_count: int = 2) -> TableInfo:
    return make_table(cluster, bucket_count=bucket_count, bucket_keys=("id",), partition_keys=KEYS, schema=DAYS)


def names(cluster: EmbeddedCluster, table: TableInfo) -> dict[str, int]:
    return {partition.partition_name: partition.partition_id for partition in cluster.partitions(table)}


def ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


def test_partitions_come_with_their_first_row_and_have_all_buckets(cluster: EmbeddedCluster) -> None:
    table = partitioned(cluster, 3)
    assert (table.partition_keys, cluster.partitions(table), cluster.offsets(table)) == (KEYS, (), {})

    ranges = cluster.append(PATH, days((1, "eu", "2024-01-31"), (2, "us", "2024-01-31"), (3, "eu", "2024-01-31")), "writer", 0)

    by_name = names(cluster, table)
    assert set(by_name) == {"eu$2024-01-31", "us$2024-01-31"}
    assert set(cluster.offsets(table)) == {BucketKey(partition, bucket) for partition in by_name.values() for bucket in range(3)}
    assert {appended.bucket.partition_id for appended in ranges} == set(by_name.values())
    for name, expected in (("eu$2024-01-31", [1, 3]), ("us$2024-01-31", [2])):
        parts = [
            scan(cluster, table, key, 0, ends.log_end) for key, ends in cluster.offsets(table).items() if key.partition_id == by_name[name]
        ]
        assert ids(pa.concat_tables(parts)) == expected


def test_an_empty_append_makes_no_partition(cluster: EmbeddedCluster) -> None:
    table = partitioned(cluster)
    assert list(cluster.append(PATH, days(), "writer", 0)) == []
    assert cluster.partitions(table) == ()


@pytest.mark.parametrize("region", ["", "a$b", "../x", "__x", "ä", "a b", "x" * 201])
def test_a_value_that_cannot_be_in_a_name_is_refused_and_nothing_of_the_append_taken(cluster: EmbeddedCluster, region: str) -> None:
    table = partitioned(cluster)
    with pytest.raises(InvalidData, match="'region'"):
        cluster.append(PATH, days((1, "eu", "2024-01-31"), (2, region, "2024-01-31")), "writer", 0)
    assert (cluster.partitions(table), cluster.offsets(table)) == ((), {})


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.int32(), [-(2**31), 0, 2**31 - 1], ["-2147483648", "0", "2147483647"]),
        (pa.int8(), [-128, 127], ["-128", "127"]),
        (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)], ["0001-01-01", "1969-12-31", "9999-12-31"]),
        (pa.string(), ["EU", "eu", "-", "x" * 200], ["EU", "eu", "-", "x" * 200]),
    ],
)
def test_names_are_the_values_as_fluss_writes_them(
    cluster: EmbeddedCluster, kind: pa.DataType, values: list[object], expected: list[str]
) -> None:
    schema = pa.schema([pa.field("p", kind, nullable=False)])
    table = make_table(cluster, partition_keys=("p",), schema=schema)
    cluster.append(PATH, pa.table({"p": pa.array(values, kind)}, schema=schema), "writer", 0)
    assert set(names(cluster, table)) == set(expected)


@pytest.mark.parametrize("day", [2_932_897, 3_000_000, -719_163, -719_528, -1_000_000, 2**31 - 1, -(2**31)])
def test_a_date_beyond_the_calendar_is_refused(cluster: EmbeddedCluster, day: int) -> None:
    """The first day after the year 9999, the last one before the year 1 and the first of the year 0 among them."""
    schema = pa.schema([pa.field("p", pa.date32(), nullable=False)])
    make_table(cluster, partition_keys=("p",), schema=schema)
    with pytest.raises(InvalidData, match="between the years 1 and 9999"):
        cluster.append(PATH, pa.table({"p": pa.array([day], pa.int32()).cast(pa.date32())}, schema=schema), "writer", 0)


def test_a_dropped_partition_is_gone_and_its_name_comes_back_under_a_new_id(cluster: EmbeddedCluster, storage: EmbeddedStorage) -> None:
    table = partitioned(cluster)
    cluster.append(PATH, days((1, "eu", "2024-01-31"), (2, "us", "2024-01-31")), "writer", 0)
    before = names(cluster, table)
    files = set(storage.root.rglob("*.arrow"))

    cluster.drop_partition(PATH, "eu$2024-01-31")

    assert names(cluster, table) == {"us$2024-01-31": before["us$2024-01-31"]}
    assert {key.partition_id for key in cluster.offsets(table)} == {before["us$2024-01-31"]}
    assert len(files - set(storage.root.rglob("*.arrow"))) == 1
    with pytest.raises(UnknownPartition, match=r"eu\$2024-01-31"):
        cluster.drop_partition(PATH, "eu$2024-01-31")

    cluster.append(PATH, days((3, "eu", "2024-01-31")), "writer", 1)
    again = names(cluster, table)["eu$2024-01-31"]
    assert again > max(before.values())
    assert ids(scan_all(cluster, table)) == [2, 3]


def test_ids_are_not_used_again_after_a_restart_and_everything_else_is_there(tmp_path: Path, clock: ManualClock) -> None:
    rows = days((1, "eu", "2024-01-31"), (2, "us", "2024-01-31"))
    with EmbeddedStorage(tmp_path, clock) as storage:
        table = partitioned(storage)
        answer = list(storage.append(PATH, rows, "writer", 0))
        before = names(storage, table)
        storage.drop_partition(PATH, max(before, key=lambda name: before[name]))
        kept, bounds, content = storage.partitions(table), storage.offsets(table), scan_all(storage, table)

    with EmbeddedStorage(tmp_path, clock) as storage:
        assert storage.table(PATH) == table
        assert (storage.partitions(table), storage.offsets(table)) == (kept, bounds)
        assert scan_all(storage, table) == content
        again = list(storage.append(PATH, rows, "writer", 0))
        assert [ends for ends in again if ends in answer] == answer[:1], "the rows of the dropped partition are written again"
        storage.append(PATH, days((3, "asia", "2024-01-31")), "writer", 1)
        assert names(storage, table)["asia$2024-01-31"] > max(before.values())


def test_names_of_dropped_tables_and_wrong_tables_are_errors(cluster: EmbeddedCluster) -> None:
    table = partitioned(cluster)
    with pytest.raises(UnknownPartition):
        cluster.drop_partition(PATH, "'; DROP TABLE partitions --")
    cluster.drop_table(PATH)
    with pytest.raises(UnknownTable):
        cluster.partitions(table)
    with pytest.raises(UnknownTable):
        cluster.drop_partition(PATH, "eu$2024-01-31")


FEW = 40
"""Statements and syncs of folders, for an append to however many buckets."""


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Statements of the metadata's database, each counted once for any number of rows."""
    executed: list[str] = []

    def count(connection: object, cursor: object, statement: str, *_: object) -> None:
        executed.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    yield executed
    sa.event.remove(sa.Engine, "before_cursor_execute", count)


def test_hundreds_of_partitions_in_one_append_take_few_statements_and_are_listed_whole(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, statements: list[str]
) -> None:
    monkeypatch.setattr("tiering.cluster.embedded.rpc.service.PARTITIONS_PER_PAGE", 100)
    table = partitioned(cluster, 2)
    rows = days(*((number, f"r{number % 600}", "2024-01-31") for number in range(3_000)))

    syncs: list[Path] = []
    monkeypatch.setattr(segments, "sync_folder", syncs.append)
    statements.clear()
    cluster.append(PATH, rows, "writer", 0)
    executed = len(statements)

    assert len(cluster.partitions(table)) == 600
    assert sum(ends.log_end for ends in cluster.offsets(table).values()) == 3_000
    assert 0 < executed < FEW, statements
    assert 0 < len(syncs) < FEW


def test_more_buckets_than_a_message_can_list_are_refused_and_leave_nothing(
    storage: EmbeddedStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiering.cluster.embedded.metadata.partitions.MAX_TABLE_BUCKETS", 4)
    table = partitioned(storage, 2)
    with pytest.raises(InvalidArgument, match="3 partitions of 2 buckets"):
        storage.append(PATH, days(*((number, f"r{number}", "2024-01-31") for number in range(3))), "writer", 0)
    assert storage.partitions(table) == ()
    assert not list(storage.root.rglob("*.arrow"))


def test_appends_without_a_bucket_key_go_round_the_buckets_of_every_partition(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, bucket_count=2, partition_keys=KEYS, schema=DAYS)
    for sequence in range(4):
        cluster.append(PATH, days((1, "eu", "2024-01-31"), (2, "us", "2024-01-31")), "writer", sequence)
    assert [ends.log_end for ends in cluster.offsets(table).values()] == [2, 2, 2, 2]


def test_oldest_timestamps_know_partitions(cluster: EmbeddedCluster, clock: ManualClock) -> None:
    table = partitioned(cluster, 1)
    first = clock.time
    cluster.append(PATH, days((1, "eu", "2024-01-31")), "writer", 0)
    second = clock.advance(10)
    cluster.append(PATH, days((1, "us", "2024-01-31"), (2, "eu", "2024-01-31")), "writer", 1)
    eu, us = (BucketKey(names(cluster, table)[f"{region}$2024-01-31"], 0) for region in ("eu", "us"))

    assert cluster.oldest_timestamps(table, {eu: 0, us: 0}) == {eu: first, us: second}
    assert cluster.oldest_timestamps(table, {eu: 1, us: 1, BucketKey(99, 0): 0}) == {eu: second}


def test_a_partition_dropped_under_a_round_is_an_error_that_trying_again_helps(cluster: EmbeddedCluster) -> None:
    table = partitioned(cluster, 1)
    cluster.append(PATH, days((1, "eu", "2024-01-31"), (2, "us", "2024-01-31")), "writer", 0)
    eu = BucketKey(names(cluster, table)["eu$2024-01-31"], 0)
    reader = cluster.reader(table, split_of(table, eu, 0, 1))

    cluster.drop_partition(PATH, "eu$2024-01-31")

    with pytest.raises(SourceChanged, match="dropped") as planned:  # when the round asks for its readers
        cluster.reader(table, split_of(table, eu, 0, 1))
    with pytest.raises(SourceChanged, match="dropped while it was read") as reading:  # and on an executor
        list(pickle.loads(pickle.dumps(reader)).read())
    assert planned.value.retryable
    assert reading.value.retryable


def test_a_table_dropped_under_a_reader_is_not_taken_for_damage(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    cluster.append(PATH, orders(0, 3), "writer", 0)
    reader = cluster.reader(table, split_of(table, 0, 0, 3))
    cluster.drop_table(PATH)
    with pytest.raises(SourceChanged, match="dropped"):
        list(reader.read())


def test_a_crash_before_or_after_a_drop_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedStorage(tmp_path) as storage:
        table = partitioned(storage, 1)
        storage.append(PATH, days((1, "eu", "2024-01-31"), (2, "us", "2024-01-31")), "writer", 0)
        eu, us = (BucketKey(names(storage, table)[f"{region}$2024-01-31"], 0) for region in ("eu", "us"))
        readers = [storage.reader(table, split_of(table, bucket, 0, 1)) for bucket in (eu, us)]
        monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)  # dies before the files of the dropped partition are removed
        storage.drop_partition(PATH, "eu$2024-01-31")
        monkeypatch.undo()
        assert len(list(tmp_path.rglob("*.arrow"))) == 2
    (tmp_path / "log" / str(table.table_id) / f"{us.partition_id}.dropped").touch()  # as a crash before the drop of us leaves it

    with EmbeddedStorage(tmp_path) as storage:
        (segment,) = tmp_path.rglob("*.arrow")
        with pytest.raises(SourceChanged):
            list(readers[0].read())
        assert ids(scan_all(storage, table)) == [2]
        segment.unlink()
        with pytest.raises(DataCorrupt, match="missing"):
            list(readers[1].read())


def test_the_lake_record_of_a_vanished_partition_does_not_hold_it_back(storage: EmbeddedStorage) -> None:
    table = partitioned(storage, 1)
    storage.append(PATH, days((1, "eu", "2024-01-31"), (2, "us", "2024-01-31")), "writer", 0)
    eu, us = (BucketKey(names(storage, table)[f"{region}$2024-01-31"], 0) for region in ("eu", "us"))
    storage.record_lake_snapshot(table, RecordedLakeSnapshot(1, {eu: 1, us: 1}))
    storage.drop_partition(PATH, "eu$2024-01-31")

    storage.record_lake_snapshot(table, RecordedLakeSnapshot(2, {us: 1}))

    assert storage.lake_snapshot(table) == RecordedLakeSnapshot(2, {us: 1})


@pytest.mark.parametrize("characters", [155, 156])
def test_a_partition_whose_folder_no_file_system_takes_is_refused_at_the_write(cluster: EmbeddedCluster, characters: int) -> None:
    """`column=value` has at most 255 bytes: it was accepted, and then no partition of the table was tiered."""
    column = "p" * 99
    schema = pa.schema([pa.field("id", pa.int64()), pa.field(column, pa.string(), nullable=False)])
    table = make_table(cluster, schema=schema, partition_keys=(column,))
    rows = pa.table({"id": [1], column: ["v" * characters]}, schema=schema)
    if characters <= 155:
        assert cluster.append(table.path, rows, "writer", 0)
        return
    with pytest.raises(InvalidData, match="name of 256 bytes") as caught:
        cluster.append(table.path, rows, "writer", 0)
    assert "may have 155 characters" in caught.value.hint
    assert not cluster.partitions(table)
