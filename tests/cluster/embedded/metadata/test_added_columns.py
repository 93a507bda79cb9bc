"""Columns added to a table: rows from before have NULL, writers that do not know them go on, repeats are still repeats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.embedded import PATH, SCHEMA, EmbeddedCluster, ManualClock, all_threads, make_table, orders, scan, scan_all, split_of
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.errors import InvalidArgument, InvalidData, InvalidName, LakewardError, SourceChanged, UnknownTable, UnsupportedType
from tiering.model.schema.changes import additions

TIP = pa.field("tip", pa.float64())
NOTE = pa.field("note", pa.string())


def rows(start: int, **more: object) -> pa.Table:
    return pa.table({"id": [start], "city": ["x"], **{name: [value] for name, value in more.items()}})


def test_a_column_is_added_last_and_rows_from_before_have_null_in_it(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster)
    cluster.append(PATH, rows(1), "writer", 0)

    altered = cluster.alter_table(PATH, {}, additions([TIP]))
    cluster.append(PATH, rows(2, tip=0.5), "writer", 1)
    altered_again = cluster.alter_table(PATH, {"x": "y"}, additions([NOTE]))
    cluster.append(PATH, rows(3, tip=1.5, note="a"), "writer", 2)

    older = {"schema": pa.schema([*SCHEMA, TIP]), "properties": table.properties, "added_columns": ("tip",), "schema_id": 2}
    assert altered == replace(altered_again, **older)
    assert (table.added_columns, altered_again.added_columns) == ((), ("tip", "note"))
    assert altered_again.schema == pa.schema([*SCHEMA, TIP, NOTE])
    assert altered_again.lake_schema().names == ["id", "city", "tip", "note", "__bucket", "__offset", "__timestamp"]
    scanned = scan_all(cluster, altered_again)
    assert scanned.schema == altered_again.lake_schema()
    assert scanned.select(["id", "tip", "note", "__offset"]).to_pylist() == [
        {"id": 1, "tip": None, "note": None, "__offset": 0},
        {"id": 2, "tip": 0.5, "note": None, "__offset": 1},
        {"id": 3, "tip": 1.5, "note": "a", "__offset": 2},
    ]


def test_writers_that_do_not_know_a_column_go_on_but_others_may_not_be_left_out(cluster: EmbeddedCluster) -> None:
    make_table(cluster)
    table = cluster.alter_table(PATH, {}, additions([TIP, NOTE]))

    cluster.append(PATH, rows(1), "writer", 0)
    cluster.append(PATH, rows(2, note="a"), "writer", 1)
    with pytest.raises(InvalidData, match="'city' is missing"):
        cluster.append(PATH, pa.table({"id": [3], "tip": [1.0], "note": ["b"]}), "writer", 2)
    with pytest.raises(InvalidData, match="'tip' is string; the table has double"):
        cluster.append(PATH, rows(3, tip="much"), "writer", 2)

    assert scan_all(cluster, table).select(["id", "tip", "note"]).to_pylist() == [
        {"id": 1, "tip": None, "note": None},
        {"id": 2, "tip": None, "note": "a"},
    ]


def test_an_append_is_known_again_after_columns_were_added(cluster: EmbeddedCluster) -> None:
    make_table(cluster)
    answer = list(cluster.append(PATH, rows(1), "writer", 0))
    cluster.alter_table(PATH, {}, additions([TIP]))
    wider = list(cluster.append(PATH, rows(2, tip=1.0), "writer", 1))
    table = cluster.alter_table(PATH, {}, additions([NOTE]))

    assert list(cluster.append(PATH, rows(1), "writer", 0)) == answer
    assert list(cluster.append(PATH, rows(2, tip=1.0), "writer", 1)) == wider
    assert scan_all(cluster, table)["id"].to_pylist() == [1, 2]


def test_adding_again_does_no_harm_and_another_type_is_refused(cluster: EmbeddedCluster) -> None:
    make_table(cluster)
    table = cluster.alter_table(PATH, {}, additions([TIP]))
    assert cluster.alter_table(PATH, {}, additions([pa.field("tip", pa.float64())])) == table
    with pytest.raises(InvalidArgument, match="'tip' exists already with the type DOUBLE; it cannot become STRING"):
        cluster.alter_table(PATH, {}, additions([NOTE, pa.field("tip", pa.string())]))
    assert cluster.table(PATH) == table


@pytest.mark.parametrize(
    ("field", "error", "reason"),
    [
        (pa.field("more", pa.int64(), nullable=False), InvalidArgument, "'more' is NOT NULL"),
        (pa.field("City", pa.string()), InvalidArgument, "'City' cannot get its name: the column 'city' exists already"),
        (pa.field("__offset", pa.int64()), InvalidName, "__offset"),
        (pa.field("odd", pa.uint64()), UnsupportedType, "'odd' has type uint64"),
    ],
)
def test_a_column_that_cannot_be_added_is_refused_and_nothing_of_the_change_done(
    cluster: EmbeddedCluster, field: pa.Field[pa.DataType], error: type[LakewardError], reason: str
) -> None:
    table = make_table(cluster)
    with pytest.raises(error, match=reason):
        cluster.alter_table(PATH, {"x": "y"}, additions([TIP, field]))
    with pytest.raises(InvalidArgument):
        cluster.alter_table(PATH, {"table.datalake.format": "delta"}, additions([TIP]))
    assert cluster.table(PATH) == table


def test_a_table_that_is_not_there_cannot_be_altered(cluster: EmbeddedCluster) -> None:
    cluster.create_database("sales")
    with pytest.raises(UnknownTable):
        cluster.alter_table(PATH, {}, additions([TIP]))


def test_a_round_that_looked_before_the_column_came_never_drops_its_values(cluster: EmbeddedCluster) -> None:
    old = make_table(cluster)
    cluster.append(PATH, rows(1), "writer", 0)
    new = cluster.alter_table(PATH, {}, additions([TIP]))
    cluster.append(PATH, rows(2, tip=0.5), "writer", 1)

    assert scan(cluster, old, 0, 0, 1).schema == old.lake_schema()  # what came before it can still be read
    with pytest.raises(SourceChanged, match="were changed since") as error:
        cluster.reader(old, split_of(old, 0, 0, 2))
    assert error.value.retryable
    assert scan(cluster, new, 0, 0, 2)["tip"].to_pylist() == [None, 0.5]


def test_added_columns_are_there_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    with EmbeddedStorage(tmp_path, clock) as storage:
        make_table(storage, bucket_count=2, bucket_keys=("id",))
        storage.append(PATH, orders(0, 10), "writer", 0)
        table = storage.alter_table(PATH, {}, additions([TIP]))
        storage.append(PATH, rows(10, tip=0.5), "writer", 1)
        content = scan_all(storage, table)
    with EmbeddedStorage(tmp_path, clock) as storage:
        assert storage.table(PATH) == table
        assert scan_all(storage, table) == content


def test_appends_at_the_moment_of_a_change_lose_nothing(cluster: EmbeddedCluster) -> None:
    make_table(cluster)

    def old_writer() -> None:
        for sequence in range(20):
            cluster.append(PATH, rows(sequence), "old", sequence)

    def change() -> None:
        for number in range(5):
            cluster.alter_table(PATH, {}, additions([pa.field(f"c{number}", pa.int64())]))
            cluster.append(PATH, rows(100 + number, **{f"c{number}": number}), "new", number)

    all_threads([old_writer, change])

    scanned = {row["id"]: row for row in scan_all(cluster, cluster.table(PATH)).to_pylist()}
    assert set(scanned) == {*range(20), *range(100, 105)}
    for number in range(5):
        assert {key for key, row in scanned.items() if row[f"c{number}"] is not None} == {100 + number}
