"""KV snapshots that a real Fluss took of what an application wrote."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from support.clusters.fluss_snapshots import newest, snapshot_rows, snapshot_split, snapshots_up_to
from support.clusters.fluss_tables import FlussTables
from support.running.processes import wait_for
from tiering.cluster.fluss.kv.snapshots import newest_kv_snapshots, open_snapshot_reader
from tiering.cluster.fluss.source import SchemaHistory
from tiering.errors import KvSnapshotGone, UnknownTable
from tiering.model.tables import BucketKey, Partition, TableInfo

KEYED = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
OF_ALL_TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "a_bool": (pa.bool_(), True),
    "an_int8": (pa.int8(), -8),
    "an_int16": (pa.int16(), -1_600),
    "an_int32": (pa.int32(), -(2**31)),
    "an_int64": (pa.int64(), 2**62),
    "a_float": (pa.float32(), 1.5),
    "a_double": (pa.float64(), -2.25),
    "a_string": (pa.string(), "žluťoučký kůň"),
    "some_bytes": (pa.binary(), b"\0\xff"),
    "a_small_decimal": (pa.decimal128(18, 3), Decimal("-123456789012345.678")),
    "a_large_decimal": (pa.decimal128(38, 10), Decimal("-1234567890123456789012345678.0123456789")),
    "a_date": (pa.date32(), date(1969, 7, 20)),
    "milliseconds": (pa.timestamp("ms"), datetime(2026, 1, 2, 3, 4, 5, 678_000)),
    "microseconds": (pa.timestamp("us"), datetime(2026, 1, 2, 3, 4, 5, 678_901)),
    "an_instant_ms": (pa.timestamp("ms", "UTC"), datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)),
    "an_instant_us": (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)),
    "numbers": (pa.list_(pa.int64()), [1, None, -3]),
    "texts": (pa.list_(pa.string()), ["short", None, "longer than seven bytes", ""]),
    "large_decimals": (pa.list_(pa.decimal128(20, 2)), [Decimal("1.25"), None, Decimal("-99999999999999999.99")]),
    "instants": (pa.list_(pa.timestamp("us")), [datetime(2026, 1, 1, 0, 0, 0, 1), None]),
    "lists": (pa.list_(pa.list_(pa.int32())), [[1, 2], None, []]),
    "counts": (pa.map_(pa.string(), pa.int64()), [("a", 1), ("much longer", None)]),
    "a_point": (POINT, {"x": 5, "y": "here"}),
    "points": (pa.list_(POINT), [{"x": 1, "y": "a"}, None, {"x": None, "y": "longer than seven bytes"}]),
}


def keyed(tables: FlussTables, name: str, rows: range, **more: Any) -> TableInfo:
    table = tables.create(name, KEYED, ["id"], **more)
    tables.upsert(table, [{"id": number, "name": f"name {number}"} for number in rows])
    return table


def test_all_types_are_read_as_they_were_written(tables: FlussTables) -> None:
    schema = pa.schema([KEYED.field("id"), *(pa.field(name, kind) for name, (kind, _) in OF_ALL_TYPES.items())])
    table = tables.create("all_types", schema, ["id"])
    full = {"id": 1, **{name: value for name, (_, value) in OF_ALL_TYPES.items()}}
    empty = {"id": 2, **dict.fromkeys(OF_ALL_TYPES)}
    tables.upsert(table, [{**full, "counts": dict(full["counts"])}, empty])

    rows = snapshot_rows(tables, table, snapshots_up_to(tables, table, 2))

    assert [{name: row[name] for name in schema.names} for row in rows] == [full, empty]


def test_the_last_row_of_each_key_is_there(tables: FlussTables) -> None:
    table = keyed(tables, "changed", range(100), buckets=3)
    tables.delete(table, [{"id": number} for number in range(0, 100, 2)])
    tables.upsert(table, [{"id": number, "name": "new"} for number in range(90, 110)])

    rows = snapshot_rows(tables, table, snapshots_up_to(tables, table, 100 + 50 + 5 * 2 + 15))

    kept = [number for number in range(90) if number % 2]
    assert [(row["id"], row["name"]) for row in rows] == [
        *((number, f"name {number}") for number in kept),
        *((n, "new") for n in range(90, 110)),
    ]
    assert {(row["__offset"], row["__change_type"]) for row in rows} == {(-1, 1)}
    assert {row["__bucket"] for row in rows} == {0, 1, 2}


def test_rows_of_before_a_column_was_added_have_null_in_it(tables: FlussTables) -> None:
    old = keyed(tables, "grown", range(3))
    new = tables.add_column(old, pa.field("tags", pa.list_(pa.string())))

    def written() -> bool | None:
        tables.upsert(new, [{"id": 2, "name": "new", "tags": ["a", None]}])  # refused until the tablet server knows the column
        snapshots = newest(tables, new)
        return True if snapshots and snapshot_rows(tables, new, snapshots)[-1]["tags"] else None

    wait_for("a row with the new column", written)

    rows = snapshot_rows(tables, new, newest(tables, new))
    assert [(row["name"], row["tags"]) for row in rows] == [("name 0", None), ("name 1", None), ("new", ["a", None])]


def test_partitions_have_snapshots_of_their_own(tables: FlussTables) -> None:
    schema = pa.schema([KEYED.field("id"), pa.field("region", pa.string(), nullable=False)])
    table = tables.create("regions", schema, ["id", "region"], partition_keys=["region"])
    partitions = [Partition(tables.add_partition(table, {"region": name}), name) for name in ("EU", "US")]
    table = replace(table, partition_keys=("region",))
    tables.upsert(table, [{"id": number, "region": ("EU", "US")[number % 2]} for number in range(10)])
    vanished = [*partitions, Partition(99_999, "gone")]

    wait_for("both partitions", lambda: True if len(newest(tables, table, partitions)) == 2 else None)
    snapshots = snapshots_up_to(tables, table, 10, partitions)

    assert snapshots.keys() == {BucketKey(partition.partition_id, 0) for partition in partitions}
    assert [row["region"] for row in snapshot_rows(tables, table, snapshots)] == ["EU", "US"] * 5
    # A partition that is listed no more when its snapshots are asked for, and one that another has the name of.
    listed = iter([vanished, partitions])
    assert newest_kv_snapshots(tables.client, table, lambda: next(listed)) == snapshots
    assert newest_kv_snapshots(tables.client, table, lambda: [Partition(99_999, "EU"), partitions[1]]).keys() == {
        BucketKey(partitions[1].partition_id, 0)
    }


def test_a_superseded_snapshot_is_gone(tables: FlussTables) -> None:
    table = keyed(tables, "superseded", range(10))
    ((bucket, first),) = snapshots_up_to(tables, table, 10).items()
    schemas = SchemaHistory(tables.client).of(table)
    opened_before = open_snapshot_reader(tables.client, table, snapshot_split(table, bucket, first), schemas, {})
    for records in (12, 14):  # the newest two are kept
        tables.upsert(table, [{"id": 1, "name": f"new {records}"}])
        snapshots_up_to(tables, table, records)

    def gone() -> KvSnapshotGone | None:
        try:
            open_snapshot_reader(tables.client, table, snapshot_split(table, bucket, first), schemas, {})
        except KvSnapshotGone as error:
            return error
        return None

    assert wait_for("the end of the first snapshot", gone).retryable

    def unreadable() -> bool | None:
        try:
            list(opened_before.read())
        except KvSnapshotGone:
            return True
        return None

    assert wait_for("the end of its files", unreadable)


def test_a_table_that_was_made_anew_has_none_of_the_former(tables: FlussTables) -> None:
    former = keyed(tables, "anew", range(5))
    snapshots_up_to(tables, former, 5)
    keyed(tables, "anew", range(1))

    with pytest.raises(UnknownTable):
        newest(tables, former)


def test_a_log_table_has_none(tables: FlussTables) -> None:
    assert newest(tables, tables.create("only_log", KEYED)) == {}


def test_a_table_whose_rows_are_stored_in_another_form_is_read_from_its_log(tables: FlussTables) -> None:
    table = keyed(tables, "compacted", range(5))
    snapshots_up_to(tables, table, 5)

    assert newest(tables, replace(table, properties={"table.kv.format": "ODD"})) == {}
    assert newest(tables, replace(table, properties={"table.kv.format-version": "3"})) == {}
    assert newest(tables, replace(table, properties={"table.kv.format": "compacted", "table.kv.format-version": "2"}))
