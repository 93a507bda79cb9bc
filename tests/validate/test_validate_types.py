"""Values of every type are told equal on both sides when they are, and different when they are not."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, data_files, faults, replace_column
from tiering.validate.engine import open_engine
from tiering.validate.subject import read_subject

EARLY, LATE = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)
EARLY_UTC, LATE_UTC = EARLY.replace(tzinfo=UTC), LATE.replace(tzinfo=UTC)
CLOCKS_GO_FORWARD = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
# Dates and times of other years than 1 to 9999 are numbers here: Python has none.
CLOCKS_GO_BACK = [datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in (0, 1)]
OF_EACH_TYPE: dict[str, tuple[pa.DataType, list[Any]]] = {
    "truth": (pa.bool_(), [True, False, None]),
    "i8": (pa.int8(), [-128, 0, 127, None]),
    "i16": (pa.int16(), [-(2**15), 2**15 - 1, None]),
    "i32": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "i64": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "real": (pa.float32(), [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.1, None]),
    "double": (pa.float64(), [math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 5e-324, None]),
    "money": (pa.decimal128(9, 2), [Decimal("-1234567.89"), Decimal("0.01"), None]),
    "wide": (pa.decimal128(38, 10), [Decimal("9" * 28 + "." + "9" * 10), Decimal("-0.0000000001"), None]),
    "whole": (pa.decimal128(38, 0), [Decimal("9" * 38), Decimal("-" + "9" * 38), None]),
    "text": (pa.string(), ["", "a", "\u00e9\U0001f600", "x\x00y", "it's", None]),
    "raw": (pa.binary(), [b"", b"\x00\xff", None]),
    "day": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None]),
    "far_day": (pa.date32(), [-1_000_000, 2_932_897, -719_163, None]),
    "far_local": (pa.timestamp("us"), [-70_000_000_000_000_000, 400_000_000_000_000_000, None]),
    "far_zoned": (pa.timestamp("us", tz="UTC"), [-70_000_000_000_000_000, 400_000_000_000_000_000, None]),
    "local": (pa.timestamp("us"), [EARLY, datetime(1969, 12, 31, 23, 59, 59, 999_999), LATE, None]),
    "zoned": (
        pa.timestamp("us", tz="UTC"),
        [EARLY_UTC, CLOCKS_GO_FORWARD, LATE_UTC, None],
    ),
    "berlin": (
        pa.timestamp("us", tz="Europe/Berlin"),
        [*CLOCKS_GO_BACK, None],
    ),
    "list": (pa.list_(pa.int16()), [[], [1, None, 3], [None], None]),
    "map": (pa.map_(pa.string(), pa.float64()), [[], [("b", math.nan), ("a", None)], None]),
    "struct": (
        pa.struct([("n", pa.int8()), ("when", pa.timestamp("us", tz="UTC")), ("inner", pa.struct([("d", pa.decimal128(20, 3))]))]),
        [{"n": None, "when": None, "inner": None}, {"n": 1, "when": LATE_UTC, "inner": {"d": Decimal("1.234")}}, None],
    ),
    "deep": (
        pa.list_(pa.struct([("m", pa.map_(pa.int32(), pa.list_(pa.string())))])),
        [[{"m": [(1, ["x", None])]}, None, {"m": None}], [], None],
    ),
}
EVERYTHING = pa.schema([pa.field(name, kind) for name, (kind, _) in OF_EACH_TYPE.items()])


def rows_of_everything() -> pa.Table:
    """Each value of each type, beside NULLs and beside the others."""
    count = max(len(values) for _, values in OF_EACH_TYPE.values())
    columns = [pa.array([values[row % len(values)] for row in range(count)], kind) for kind, values in OF_EACH_TYPE.values()]
    return pa.table(columns, schema=EVERYTHING)


def test_values_of_every_type_are_the_same_on_both_sides(world: LakeWorld) -> None:
    table = world.table("everything", buckets=1, schema=EVERYTHING)
    world.storage.append(table.path, rows_of_everything(), "w", 0)
    world.tier(table)
    results = check(world, table)
    assert all(result.ok for result in results), results
    assert [result.check for result in results] == ["base", "files", "rows", "offsets", "values"]


def test_rows_of_primary_key_tables_of_every_type_are_the_same_on_both_sides(world: LakeWorld) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), *EVERYTHING])
    table = world.primary_key_table("everything", buckets=1, schema=schema)
    rows = rows_of_everything()
    world.storage.upsert(table.path, rows.add_column(0, schema.field("id"), pa.array(range(rows.num_rows), pa.int64())), "w", 0)
    world.tier(table)
    results = check(world, table)
    assert all(result.ok for result in results), results


@pytest.mark.parametrize("name", OF_EACH_TYPE)
def test_one_other_value_of_any_type_is_found_and_its_column_named(world: LakeWorld, name: str) -> None:
    kind, values = OF_EACH_TYPE[name]
    table = world.table("typed", buckets=1, schema=pa.schema([pa.field(name, kind)]))
    world.storage.append(table.path, pa.table({name: pa.array([values[0]] * 5, kind)}), "w", 0)
    world.tier(table)
    [file] = data_files(world, table)
    replace_column(file, name, [values[0], values[0], values[1], values[0], values[0]])
    details = f"bucket 0: offset 2 has other values in the lake than in the log, in {name}"
    assert faults(check(world, table)) == [("values", "0", details)]


ALIKE: dict[str, tuple[pa.DataType, list[Any]]] = {
    "list": (pa.list_(pa.int32()), [None, [], [None], [0]]),
    "texts": (pa.list_(pa.string()), [None, [], [None], [""], ["NULL"], ["a", "b"], ["a, b"], ["'a', 'b'"]]),
    "struct": (pa.struct([("a", pa.int32()), ("b", pa.string())]), [None, {"a": None, "b": None}, {"a": None, "b": "NULL"}]),
    "map": (pa.map_(pa.string(), pa.string()), [None, [], [("a", None)], [("a", "NULL")], [("a", "x"), ("b", "y")], [("a", "x, b=y")]]),
    "text": (pa.string(), [None, "", "NULL"]),
    "number": (pa.int64(), [None, 0, -1]),
}
"""Values that are easily taken for each other."""


@pytest.mark.parametrize("name", ALIKE)
def test_values_that_look_alike_are_told_apart(world: LakeWorld, name: str) -> None:
    kind, values = ALIKE[name]
    table = world.table("alike", buckets=1, schema=pa.schema([pa.field(name, kind)]))
    world.storage.append(table.path, pa.table({name: pa.array(values, kind)}), "w", 0)
    world.tier(table)
    assert not faults(check(world, table))
    [file] = data_files(world, table)
    for place in range(1, len(values)):  # its neighbour's value, every other one as it was
        replace_column(file, name, [*values[:place], values[place - 1], *values[place + 1 :]])
        details = f"bucket 0: offset {place} has other values in the lake than in the log, in {name}"
        assert faults(check(world, table)) == [("values", "0", details)]


NAMES = ("filename", "file_row_number", "file_index", "place", "at", "change", "digest", "path", "pos", "partition", "d", "select", "c0")


@pytest.mark.parametrize("kind", ["log", "primary_key"])
def test_columns_may_have_names_that_the_engine_uses_itself(world: LakeWorld, kind: str) -> None:
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in NAMES])
    first = pa.table({name: [number, number + 50] for number, name in enumerate(NAMES)}, schema=schema)
    if kind == "log":
        table = world.table("names", buckets=1, schema=schema)
        world.storage.append(table.path, first, "w", 0)
    else:
        table = world.primary_key_table("names", buckets=1, schema=schema, key=("at", "place", "change"))
        world.storage.upsert(table.path, first, "w", 0)
    world.tier(table)
    if kind == "primary_key":  # so that there are position deletes, for which rows are counted
        world.storage.upsert(table.path, first.set_column(2, schema.field(2), pa.array([7, 8])), "w", 1)
        world.tier(table)
    results = check(world, table)
    assert all(result.ok for result in results), results


def test_structs_within_structs_are_read_from_the_middle_of_a_segment(world: LakeWorld) -> None:
    inner = pa.struct([("inner", pa.struct([("number", pa.int64())]))])
    table = world.table("nested", buckets=1, schema=pa.schema([("value", inner)]))
    rows = pa.table({"value": pa.array([{"inner": {"number": number}} for number in range(10)], inner)})
    world.storage.append(table.path, rows, "test", 0)
    world.tier(table)
    subject = read_subject(world.storage, world.lake, table.path, None)
    (bucket_range,) = subject.bucket_ranges
    with open_engine(subject) as engine, engine.log(bucket_range, 4, 9, ["value"]) as log:
        assert engine.rows(f"SELECT value.inner.number FROM {log} ORDER BY 1") == [(number,) for number in range(4, 9)]
