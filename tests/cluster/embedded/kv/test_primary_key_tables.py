"""Primary-key tables of the embedded cluster: what upserts and deletes leave in the log, in process and over gRPC."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from support.clusters.changelog import CHANGES, SIGNS, changes, rows_of
from support.clusters.embedded import (
    DAYS,
    PATH,
    SCHEMA,
    EmbeddedCluster,
    ManualClock,
    all_threads,
    cities,
    days,
    make_table,
    order_ids,
    orders,
    scan_all,
)
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.log_writer import LogWriter
from tiering.errors import InvalidArgument, InvalidData, UnknownTable
from tiering.model.schema.changes import additions
from tiering.model.tables import BucketKey, TableType


def test_a_primary_key_table_describes_itself(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, bucket_count=3, primary_key=("id",))
    assert (table.table_type, table.primary_key, table.bucket_keys) == (TableType.PRIMARY_KEY, ("id",), ("id",))
    assert cluster.table(PATH) == table
    assert table.read_schema().names[-1] == "__change_type"


def test_upserts_and_deletes_are_logged_as_changes_with_the_row_before(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, primary_key=("id",))
    cluster.upsert(PATH, cities((1, "Oslo"), (2, "Lima"), (3, None)), "writer", 0)
    (ranges,) = cluster.upsert(PATH, cities((4, "Bern"), (2, "Rome"), (3, None)), "writer", 1)
    cluster.delete(PATH, order_ids(1, 99, 2), "writer", 2)
    cluster.upsert(PATH, cities((1, "Kyiv")), "writer", 3)

    assert (ranges.starting_offset, ranges.stopping_offset) == (3, 8)
    assert changes(cluster, table) == [
        ("+I", 1, "Oslo"),
        ("+I", 2, "Lima"),
        ("+I", 3, None),
        ("+I", 4, "Bern"),
        ("-U", 2, "Lima"),
        ("+U", 2, "Rome"),
        ("-U", 3, None),
        ("+U", 3, None),
        ("-D", 1, "Oslo"),
        ("-D", 2, "Rome"),
        ("+I", 1, "Kyiv"),
    ]
    assert rows_of(scan_all(cluster, table)) == {1: "Kyiv", 3: None, 4: "Bern"}


def test_of_a_key_that_comes_twice_in_a_batch_the_last_row_counts(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, primary_key=("id",))
    cluster.upsert(PATH, cities((1, "a"), (2, "b"), (1, "c")), "writer", 0)
    cluster.delete(PATH, order_ids(2, 2), "writer", 1)
    assert changes(cluster, table) == [("+I", 2, "b"), ("+I", 1, "c"), ("-D", 2, "b")]


def test_a_repeated_write_changes_nothing_and_answers_the_same(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, primary_key=("id",))
    first = cluster.upsert(PATH, cities((1, "a"), (1, "b")), "writer", 0)
    assert cluster.delete(PATH, order_ids(7), "writer", 1) == []
    cluster.upsert(PATH, cities((1, "c"), (7, "now there")), "other", 0)

    assert cluster.upsert(PATH, cities((1, "a"), (1, "b")), "writer", 0) == first
    assert cluster.delete(PATH, order_ids(7), "writer", 1) == []
    assert rows_of(scan_all(cluster, table)) == {1: "c", 7: "now there"}
    for again in (lambda: cluster.upsert(PATH, cities((1, "x")), "writer", 0), lambda: cluster.delete(PATH, order_ids(1), "writer", 0)):
        with pytest.raises(InvalidArgument, match=r"wrote other rows to sales\.orders with the sequence 0"):
            again()


def test_writes_without_rows_are_no_writes(cluster: EmbeddedCluster) -> None:
    make_table(cluster, primary_key=("id",))
    assert list(cluster.upsert(PATH, cities(), "writer", 0)) == []
    assert list(cluster.upsert(PATH, cities((1, "a")), "writer", 0)) != []


def test_what_does_not_fit_is_refused_by_name_and_changes_nothing(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, primary_key=("id",))
    nullable = pa.schema([pa.field("id", pa.int64()), pa.field("city", pa.string())])
    with pytest.raises(InvalidData, match="'id' has a null"):
        cluster.upsert(PATH, pa.RecordBatch.from_pydict({"id": [1, None], "city": ["a", "b"]}, schema=nullable), "writer", 0)
    with pytest.raises(InvalidData, match="no column 'town'"):
        cluster.upsert(PATH, pa.RecordBatch.from_pydict({"id": [1], "city": ["a"], "town": ["b"]}), "writer", 0)
    with pytest.raises(InvalidData, match="'id' has a null"):
        cluster.delete(PATH, pa.RecordBatch.from_pydict({"id": pa.array([None], pa.int64())}), "writer", 0)
    with pytest.raises(InvalidData, match=r"'city' is not a key column of sales\.orders"):
        cluster.delete(PATH, cities((1, "a")), "writer", 0)
    with pytest.raises(InvalidArgument, match="has a primary key") as refused:
        cluster.append(PATH, cities((1, "a")), "writer", 0)
    assert refused.value.hint == "Upsert them."
    assert cluster.offsets(table)[BucketKey(None, 0)].log_end == 0


def test_a_log_table_takes_no_upserts_or_deletes(cluster: EmbeddedCluster) -> None:
    make_table(cluster)
    for write in (lambda: cluster.upsert(PATH, cities((1, "a")), "w", 0), lambda: cluster.delete(PATH, order_ids(1), "w", 0)):
        with pytest.raises(InvalidArgument, match="is a log table") as refused:
            write()
        assert refused.value.hint == "Append to it."
    with pytest.raises(InvalidArgument, match="is a log table, without a primary key: it has no KV snapshots") as refused:
        cluster.take_kv_snapshots(PATH)
    assert refused.value.hint == "It needs none: rounds read its log."


def test_a_composite_key_of_many_types_and_nested_values_survive_the_state(cluster: EmbeddedCluster) -> None:
    keys = {
        "a": pa.int16(),
        "b": pa.decimal128(20, 4),
        "c": pa.date32(),
        "d": pa.timestamp("us", tz="UTC"),
        "e": pa.string(),
        "f": pa.binary(),
    }
    schema = pa.schema(
        [
            *(pa.field(name, kind, nullable=False) for name, kind in keys.items()),
            pa.field("tags", pa.list_(pa.field("element", pa.struct([("x", pa.int8()), ("Y", pa.string())])))),
            pa.field("by_name", pa.map_(pa.string(), pa.list_(pa.field("element", pa.float32())))),
            pa.field("at", pa.timestamp("us")),
            pa.field("exact", pa.decimal128(38, 10)),
        ]
    )
    table = make_table(cluster, bucket_count=2, primary_key=tuple(keys), schema=schema)
    base = pa.RecordBatch.from_pylist(
        [
            {"a": n % 2, "b": None, "c": None, "d": None, "e": "k\0" + str(n), "f": b"\xff\0", "tags": [{"x": n, "Y": None}, None],
             "by_name": [("q", [1.5, None])] if n else None, "at": None, "exact": None}
            for n in range(3)
        ],
        schema=pa.schema([field.with_nullable(True) for field in schema]),
    )  # fmt: skip
    extreme = pa.array([2**63 - 1, -(2**63) + 1, 0], pa.int64())
    filled = {
        "b": pa.array([Decimal("1.5"), Decimal("-2"), Decimal("1" * 16)], pa.decimal128(20, 4)),
        "c": pa.array([2**31 - 1, -(2**31) + 1, 0], pa.int32()).view(pa.date32()),
        "d": pa.array([0, 1, -1]).view(pa.timestamp("us", tz="UTC")),
        "at": extreme.view(pa.timestamp("us")),
        "exact": pa.array([Decimal("1e-10"), None, Decimal("9" * 28)], pa.decimal128(38, 10)),
    }
    columns = [filled.get(name, base.column(name)) for name in schema.names]
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)

    cluster.upsert(PATH, rows, "writer", 0)
    cluster.upsert(PATH, rows, "writer", 1)
    cluster.delete(PATH, rows.select(list(keys)), "writer", 2)

    logged = scan_all(cluster, table)
    for kind in CHANGES:
        logged_rows = logged.filter(pa.compute.equal(logged["__change_type"], CHANGES[kind])).sort_by("e")
        assert logged_rows.select(schema.names).cast(schema).equals(pa.Table.from_batches([rows]).sort_by("e")), kind


def test_a_key_stays_in_its_bucket_and_updates_lie_next_to_each_other(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, bucket_count=4, primary_key=("id",))
    cluster.upsert(PATH, orders(0, 100), "writer", 0)
    cluster.upsert(PATH, orders(50, 100), "writer", 1)

    logged = scan_all(cluster, table).to_pylist()
    home = {row["id"]: row["__bucket"] for row in logged}
    assert len(set(home.values())) == 4
    for row, following in itertools.pairwise(logged):
        assert row["__bucket"] == home[row["id"]]
        if SIGNS[row["__change_type"]] == "-U":
            assert (following["id"], following["__offset"], SIGNS[following["__change_type"]]) == (row["id"], row["__offset"] + 1, "+U")


def test_partitions_of_a_primary_key_table_come_and_go_with_their_rows(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, bucket_count=2, schema=DAYS, primary_key=("day", "id"), partition_keys=("day",))
    cluster.upsert(PATH, days((1, "n", "2024-01-01"), (1, "n", "2024-01-02"), (2, "s", "2024-01-02")), "writer", 0)
    cluster.upsert(PATH, days((1, "x", "2024-01-02")), "writer", 1)
    first, second = cluster.partitions(table)
    keys = days((1, "n", "2024-01-02"), (5, "n", "1999-01-01")).select(["day", "id"])
    cluster.drop_partition(PATH, second.partition_name)
    assert cluster.delete(PATH, keys, "writer", 2) == []
    assert [partition.partition_name for partition in cluster.partitions(table)] == [first.partition_name]

    cluster.upsert(PATH, days((1, "y", "2024-01-02")), "writer", 3)

    logged = scan_all(cluster, table).sort_by("day").to_pylist()
    assert [(SIGNS[row["__change_type"]], row["region"], str(row["day"])) for row in logged] == [
        ("+I", "n", "2024-01-01"),
        ("+I", "y", "2024-01-02"),
    ]
    assert cluster.partitions(table)[1].partition_id > second.partition_id


def test_a_column_added_later_is_null_before_and_for_writers_that_do_not_know_it(cluster: EmbeddedCluster) -> None:
    make_table(cluster, primary_key=("id",))
    cluster.upsert(PATH, cities((1, "a"), (2, "b")), "writer", 0)
    table = cluster.alter_table(PATH, {}, additions([pa.field("tags", pa.list_(pa.string()))]))
    wide = pa.RecordBatch.from_pydict({"id": [1], "city": ["c"], "tags": [["t"]]}, schema=table.schema)
    cluster.upsert(PATH, wide, "writer", 1)
    cluster.upsert(PATH, cities((1, "d")), "writer", 2)

    logged = scan_all(cluster, table).to_pylist()
    assert [(SIGNS[row["__change_type"]], row["city"], row["tags"]) for row in logged] == [
        ("+I", "a", None),
        ("+I", "b", None),
        ("-U", "a", None),
        ("+U", "c", ["t"]),
        ("-U", "c", ["t"]),
        ("+U", "d", None),
    ]


def test_writers_at_once_lose_no_change(cluster: EmbeddedCluster) -> None:
    table = make_table(cluster, bucket_count=2, primary_key=("id",))

    def write(number: int) -> None:
        for sequence in range(5):
            cluster.upsert(PATH, cities(*((key, f"{number}.{sequence}") for key in range(20))), f"writer {number}", sequence)

    all_threads([lambda number=number: write(number) for number in range(4)])  # type: ignore[misc]

    logged = scan_all(cluster, table)
    assert logged.num_rows == 20 + 2 * 20 * 19
    now: dict[int, str] = {}
    for sign, key, city in changes(cluster, table):
        if sign in ("-U", "-D"):
            assert now[key] == city  # each change begins with what the one before left
        else:
            now[key] = city


def test_a_writer_cuts_upserts_and_deletes_into_messages(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(cluster, primary_key=("id",))
    monkeypatch.setattr("tiering.cluster.log_writer.cut_rows", lambda batch, _: (batch.slice(at, 40) for at in range(0, 100, 40)))
    writer = LogWriter(cluster, PATH, "writer")
    writer.upsert(orders(0, 100))
    assert writer.sequence == 3
    writer.delete(orders(0, 100).select(["id"]))
    assert (writer.sequence, rows_of(scan_all(cluster, table))) == (6, {})


def test_a_table_made_anew_knows_none_of_the_old_keys(storage: EmbeddedStorage, tmp_path: Path) -> None:
    for number in range(2):
        table = make_table(storage, primary_key=("id",))
        storage.upsert(PATH, cities((1, f"life {number}")), "writer", 0)
        assert changes(storage, table) == [("+I", 1, f"life {number}")]
        storage.drop_table(PATH)
        assert list((tmp_path / "cluster" / "kv").iterdir()) == []
    with pytest.raises(UnknownTable):
        storage.upsert(PATH, cities((1, "gone")), "writer", 1)


def test_more_tables_than_states_stay_open_keep_their_rows(storage: EmbeddedStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.cluster.embedded.kv.primary_key_tables.MAX_OPEN_STATES", 2)
    paths = [PATH.__class__("sales", f"orders_{number}") for number in range(4)]
    tables = [make_table(storage, primary_key=("id",), path=path) for path in paths]
    for sequence in range(2):
        for path in paths:
            storage.upsert(path, cities((1, f"{path} {sequence}")), "writer", sequence)
    for table in tables:
        assert [sign for sign, *_ in changes(storage, table)] == ["+I", "-U", "+U"]


def test_the_schema_in_segments_stays_the_tables(storage: EmbeddedStorage, clock: ManualClock) -> None:
    table = make_table(storage, primary_key=("id",))
    storage.upsert(PATH, cities((1, "a")), "writer", 0)
    assert scan_all(storage, table).schema == table.read_schema()
    assert table.schema == SCHEMA
