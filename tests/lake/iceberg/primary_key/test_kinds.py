"""Rounds of primary-key tables with keys, partitions, columns and values of every kind: the lake equals the table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from support.clusters.primary_key_table import PrimaryKeyTable, primary_key_info, with_columns
from support.lakes.lake_rows import rows_by_duckdb
from support.values.plain_rows import plain_rows
from tiering.lake.writing import keys
from tiering.model.tables import BucketKey


@pytest.fixture
def table(kit: Any) -> PrimaryKeyTable:
    return PrimaryKeyTable(kit, primary_key_info("orders"))


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), list(range(-60, 60))),
        (pa.int32(), list(range(120))),
        (pa.int64(), [n * 2**40 for n in range(120)]),
        (pa.decimal128(38, 2), [Decimal(n - 50).scaleb(-2) for n in range(120)]),
        (pa.date32(), [date.fromordinal(719_100 + n) for n in range(120)]),
        (pa.timestamp("us"), [datetime.fromtimestamp(n * 7_919 + 0.5) for n in range(120)]),
        (pa.string(), [f"grün {n}" for n in range(119)] + [""]),
        (pa.binary(), [bytes([n, 255 - n]) for n in range(120)]),
    ],
    ids=["byte", "int", "long", "decimal", "date", "timestamp", "string", "binary"],
)
def test_a_key_of_every_type_is_found(kit: Any, kind: pa.DataType, values: list[Any]) -> None:
    schema = pa.schema([pa.field("k", kind, nullable=False), pa.field("v", pa.int64())])
    table = PrimaryKeyTable(kit, primary_key_info("typed", schema, ("k",)))
    table.put(*({"k": value, "v": number} for number, value in enumerate(values)))
    table.tier("r1")
    table.put(*({"k": value, "v": -1} for value in values[10:30]))
    table.delete(*({"k": value} for value in values[-3:]))
    prepared = table.prepare("r2")
    assert sum(result.deletes for result in prepared.committable.results) == 23
    prepared.commit()
    table.check()


@pytest.mark.usefixtures("any_size")
def test_composite_keys_are_compared_column_by_column(kit: Any) -> None:
    schema = pa.schema([pa.field("a", pa.string(), nullable=False), pa.field("v", pa.int64()), pa.field("b", pa.int32(), nullable=False)])
    info = primary_key_info("pairs", schema, ("b", "a"))
    table = PrimaryKeyTable(kit, info, lambda row: (BucketKey(None, row["b"] % 2), None))
    rows = [{"a": a, "b": b, "v": 0} for b in range(30) for a in ("", "x", "xy", "y")]
    table.put(*rows)
    table.tier("r1")
    table.put({"a": "x", "b": 3, "v": 1}, {"a": "y", "b": 4, "v": 1})
    table.delete({"a": "xy", "b": 3}, {"a": "", "b": 4})
    prepared = table.prepare("r2")
    assert sum(result.deletes for result in prepared.committable.results) == 4
    prepared.commit()
    table.check()


def test_partitions_and_buckets_keep_their_keys_apart(kit: Any) -> None:
    fields = [pa.field("day", pa.date32(), nullable=False), pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())]
    info = primary_key_info("by_day", pa.schema(fields), ("day", "id"), partition_keys=("day",), bucket_count=2)
    days = [date(2024, 2, 28), date(2024, 2, 29)]
    hashed = PrimaryKeyTable(kit, primary_key_info("unused"))._hashed
    table = PrimaryKeyTable(
        kit, info, lambda row: (BucketKey(days.index(row["day"]) + 20, hashed(row)[0].bucket_id), row["day"].isoformat())
    )
    table.put(*({"day": day, "id": number, "v": "one"} for day in days for number in range(100)))
    table.tier("r1")
    table.put(*({"day": days[1], "id": number, "v": "two"} for number in range(5)))
    table.delete({"day": days[0], "id": 3})
    table.tier("r2")
    table.check()
    table.put(*({"day": days[1], "id": number, "v": "three"} for number in range(90)))
    table.tier("r3")  # rewrites the buckets of one day alone
    table.check()
    assert table.summary()["total-position-deletes"] == "1"


def test_a_column_added_later_is_null_in_older_rows_also_after_a_rewrite(table: PrimaryKeyTable) -> None:
    table.put(*table.rows(100))
    table.tier("r1")
    with_columns(table, pa.field("note", pa.string()))
    table.put(*(row | {"note": "n"} for row in table.rows(10, name="noted")))
    table.tier("r2")
    table.check()
    table.put(*(row | {"note": "m"} for row in table.rows(60, start=40, name="noted")))
    table.tier("r3")
    assert "deleted-data-files" in table.summary()
    table.check()


def test_nested_values_survive_a_rewrite(kit: Any) -> None:
    nested = pa.struct([("tags", pa.list_(pa.string())), ("size", pa.decimal128(10, 2))])
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("more", nested), pa.field("flag", pa.bool_())])
    table = PrimaryKeyTable(kit, primary_key_info("nested", schema))
    values = [None, {"tags": ["a", None], "size": Decimal("1.50")}, {"tags": None, "size": None}, {"tags": [], "size": Decimal("-2.25")}]
    table.put(*({"id": number, "more": values[number % 4], "flag": [True, None][number % 2]} for number in range(40)))
    table.tier("r1")
    table.put(*({"id": number, "more": values[(number + 1) % 4], "flag": False} for number in range(20)))
    table.tier("r2")
    assert "deleted-data-files" in table.summary()
    table.check()


def test_a_null_list_or_map_of_structs_is_no_empty_one_after_a_rewrite(kit: Any) -> None:
    point = pa.struct([("x", pa.int64()), ("y", pa.string())])
    columns = {"list": pa.list_(point), "map": pa.map_(pa.string(), point), "deep": pa.struct([("many", pa.list_(point))])}
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), *(pa.field(name, kind) for name, kind in columns.items())])
    values: list[dict[str, Any]] = [
        {"list": None, "map": None, "deep": None},
        {"list": [], "map": [], "deep": {"many": []}},
        {"list": [None], "map": [("k", None)], "deep": {"many": None}},
        {"list": [{"x": 1, "y": None}], "map": [("k", {"x": None, "y": "b"})], "deep": {"many": [{"x": 2, "y": "c"}]}},
    ]
    table = PrimaryKeyTable(kit, primary_key_info("structs", schema))
    table.put(*({"id": number, **values[number % 4]} for number in range(40)))
    table.tier("r1")
    table.put(*({"id": number, **values[(number + 1) % 4]} for number in range(20)))
    table.tier("r2")
    assert "deleted-data-files" in table.summary()
    expected = pa.Table.from_pylist(table.expected(), schema=table.info.lake_schema())
    assert plain_rows(rows_by_duckdb(kit, table.info).sort_by("id")) == plain_rows(expected)


def test_keys_outside_of_a_row_groups_bounds_cost_no_look_at_it(table: PrimaryKeyTable, monkeypatch: pytest.MonkeyPatch) -> None:
    table.put(*table.rows(300))
    table.tier("r1")
    table.put(*table.rows(300, start=1_000))
    table.tier("r2")
    looked_at: list[int] = []
    rows_with = keys.rows_with

    def watched(changed: Any, standing: Iterator[keys.KeyRows]) -> Any:
        def counted() -> Iterator[keys.KeyRows]:
            for rows in standing:
                looked_at.append(len(rows.keys[0]))
                yield rows

        return rows_with(changed, counted())

    monkeypatch.setattr("tiering.lake.iceberg.primary_key.writer.rows_with", watched)
    table.put(*table.rows(10, start=1_200, name="new"))
    table.tier("r3")
    assert sum(looked_at) == 300
    table.check()
