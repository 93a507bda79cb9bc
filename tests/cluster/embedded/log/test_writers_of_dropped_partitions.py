"""A repeated write after a partition of it was dropped: what the writer knows of the dropped partition counts no more."""

from __future__ import annotations

import json
import sqlite3

import pytest

from support.clusters.embedded import DAYS, PATH, EmbeddedCluster, days, make_table, scan_all
from tiering.cluster.embedded.metadata.database import FILE_NAME
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.writable import AppendedRange
from tiering.model.tables import BucketKey, TableInfo

DAY = "2024-01-31"
ROWS = days((1, "eu", DAY), (2, "eu", DAY), (3, "us", DAY))


def partitioned(cluster: EmbeddedCluster, *, primary_key: bool = False) -> TableInfo:
    key = ("id", "region", "day") if primary_key else ()
    return make_table(cluster, partition_keys=("region", "day"), primary_key=key, schema=DAYS)


def ids(cluster: EmbeddedCluster, table: TableInfo) -> list[int]:
    return sorted(scan_all(cluster, table)["id"].to_pylist())


def living(cluster: EmbeddedCluster, table: TableInfo) -> set[int | None]:
    return {partition.partition_id for partition in cluster.partitions(table)}


@pytest.mark.parametrize("primary_key", [False, True], ids=["log", "primary-key"])
def test_a_repeat_writes_the_rows_of_the_dropped_partition_alone(cluster: EmbeddedCluster, primary_key: bool) -> None:
    table = partitioned(cluster, primary_key=primary_key)
    write = cluster.upsert if primary_key else cluster.append
    first = write(PATH, ROWS, "writer", 0)
    cluster.drop_partition(PATH, f"eu${DAY}")
    again = write(PATH, ROWS, "writer", 0)
    assert ids(cluster, table) == [1, 2, 3]
    assert {ends.bucket.partition_id for ends in again} == living(cluster, table)
    [kept] = [ends for ends in first if ends.bucket.partition_id in living(cluster, table)]
    assert kept in again, "the rows of the living partition keep their offsets"
    assert sorted(ends.stopping_offset - ends.starting_offset for ends in again) == [1, 2]
    assert sorted(write(PATH, ROWS, "writer", 0), key=str) == sorted(again, key=str), "the next repeat writes nothing"
    assert ids(cluster, table) == [1, 2, 3]


def test_a_repeat_goes_behind_the_late_rows_of_the_recreated_partition(cluster: EmbeddedCluster) -> None:
    table = partitioned(cluster)
    cluster.append(PATH, ROWS, "writer", 0)
    cluster.drop_partition(PATH, f"eu${DAY}")
    [late] = cluster.append(PATH, days((9, "eu", DAY)), "late", 0)
    again = cluster.append(PATH, ROWS, "writer", 0)
    assert AppendedRange(late.bucket, 1, 3) in again
    assert ids(cluster, table) == [1, 2, 3, 9]


def test_a_repeated_delete_that_found_no_row_finds_none_in_the_recreated_partition(cluster: EmbeddedCluster) -> None:
    """Only what had an effect in the dropped partition is done again."""
    table = partitioned(cluster, primary_key=True)
    cluster.upsert(PATH, ROWS, "writer", 0)
    keys = ROWS.select(["id", "region", "day"])
    cluster.delete(PATH, keys.slice(2), "deleter", 0)
    assert len(cluster.delete(PATH, keys.slice(1), "deleter", 1)) == 1, "the row of the other partition is gone already"
    cluster.upsert(PATH, ROWS.slice(2), "writer", 1)
    cluster.drop_partition(PATH, f"eu${DAY}")
    assert cluster.delete(PATH, keys.slice(1), "deleter", 1) == []
    changes = scan_all(cluster, table)["__change_type"].to_pylist()
    assert len(changes) == 3, "insert, delete, insert"


def test_a_repeat_of_a_write_whose_partitions_an_older_version_did_not_name(storage: EmbeddedStorage) -> None:
    table = partitioned(storage)
    storage.append(PATH, ROWS, "writer", 0)
    with sqlite3.connect(storage.root / FILE_NAME) as connection:
        [(ranges,)] = connection.execute("SELECT ranges FROM appends").fetchall()
        connection.execute("UPDATE appends SET ranges = ?", (json.dumps([entry[:4] for entry in json.loads(ranges)]),))
    assert len(storage.append(PATH, ROWS, "writer", 0)) == 2
    storage.drop_partition(PATH, f"eu${DAY}")
    storage.append(PATH, ROWS, "writer", 0)
    assert ids(storage, table) == [1, 2, 3]


def test_a_table_without_partitions_answers_a_repeat_as_before(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, schema=DAYS)
    first = cluster.append(PATH, ROWS, "writer", 0)
    assert cluster.append(PATH, ROWS, "writer", 0) == first == [AppendedRange(BucketKey(None, 0), 0, 3)]
    assert ids(cluster, table) == [1, 2, 3]
