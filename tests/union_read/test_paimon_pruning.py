"""Conditions on a table with a Paimon copy open only the files that may have a needed row, and a count opens none."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import PurePath

import pyarrow as pa
import pytest

from support.fresh.union_reads import PlannedRead, planned_read
from support.lake_kinds.kinds import PAIMON, PAIMON_CLEAN, in_lakes
from support.worlds.lake_world import LakeWorld
from tiering.lake.paimon.reading import file_readers
from tiering.model.reading.conditions import AllOf, AnyOf, Condition, Filter, Not, Operator
from tiering.model.reading.scans import ReadScan
from tiering.model.sql_types import Day
from tiering.model.tables import TableInfo

VISITS = pa.schema([pa.field("region", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int16())])
Opened = list[PurePath]
pytestmark = in_lakes(PAIMON, PAIMON_CLEAN)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """The data files that were opened."""
    paths, open_data_file = Opened(), file_readers.open_data_file

    def noted(storage: object, path: PurePath) -> object:
        paths.append(path)
        return open_data_file(storage, path)  # type: ignore[arg-type]

    monkeypatch.setattr(file_readers, "open_data_file", noted)
    return paths


def plan(world: LakeWorld, table: TableInfo) -> PlannedRead:
    return planned_read(world.storage, lambda name: world.lake, table.path)


def equal(column: str, value: object) -> Filter:
    return Filter(column, Operator.EQUAL, (value,))  # type: ignore[arg-type]


def visits(world: LakeWorld, bucket_keys: tuple[str, ...] = ()) -> TableInfo:
    """A log table with ids 0 to 29 in each of two partitions, ten of them in each round."""
    table = world.table("visits", 1 + 3 * len(bucket_keys), ("region",), VISITS, bucket_keys)
    for first in range(0, 30, 10):
        rows = [{"region": region, "id": number, "n": number % 3} for region in ("north", "south") for number in range(first, first + 10)]
        world.storage.append(table.path, pa.RecordBatch.from_pylist(rows, VISITS), f"writer-{first}", 0)
        world.due()
        world.tier(table)
    return table


def ids(read: PlannedRead, *conditions: Condition) -> list[int]:
    return sorted(read.rows(ReadScan(columns=("id",), conditions=conditions))["id"].to_pylist())


def test_a_count_opens_no_file(world: LakeWorld, opened: Opened) -> None:
    table = visits(world)
    world.storage.append(table.path, pa.RecordBatch.from_pylist([{"region": "south", "id": 30, "n": 1}], VISITS), "writer", 0)
    read = plan(world, table)

    assert read.count() == 61
    assert read.count(ReadScan(conditions=(equal("region", "south"),))) == 31
    assert read.count(ReadScan(conditions=(equal("id", 3),))) is None
    assert opened == []


def test_conditions_on_partition_and_column_open_one_file_of_six(world: LakeWorld, opened: Opened) -> None:
    read = plan(world, visits(world))

    assert ids(read) == sorted([*range(30), *range(30)])
    assert len(opened) == 6
    for condition, count in (
        (equal("region", "north"), 3),
        (equal("id", 15), 2),
        (AllOf((equal("region", "south"), Filter("id", Operator.GREATER, (19,)))), 1),
        (AnyOf((equal("id", 3), equal("id", 29))), 4),
        (Filter("id", Operator.IN, (None, 100, -1)), 0),
        (Filter("id", Operator.LESS_OR_EQUAL, (9.5,)), 2),
        (Filter("id", Operator.IS_NULL), 0),
        (Not(equal("id", 15)), 6),
    ):
        opened.clear()
        ids(read, condition)
        assert len(opened) == count, condition


def test_a_condition_on_the_bucket_keys_opens_files_of_one_bucket(world: LakeWorld, opened: Opened) -> None:
    read = plan(world, visits(world, ("id",)))
    assert len(ids(read)) == 60
    buckets = {path.parent.name for path in opened}
    opened.clear()

    assert ids(read, equal("id", 13)) == [13, 13]

    assert {path.parent.parent.name for path in opened} == {"region=north", "region=south"}
    assert len({path.parent.name for path in opened}) == 1 < len(buckets)


def test_a_point_query_opens_only_files_that_may_have_the_key(world: LakeWorld, opened: Opened) -> None:
    table = world.primary_key_table("stock", 1, VISITS, ("region", "id"), ("region",))
    for number, first in enumerate((0, 10, 20, 15)):
        rows = [{"region": "north", "id": key, "n": number} for key in range(first, first + 10)]
        world.storage.upsert(table.path, pa.RecordBatch.from_pylist(rows, VISITS), "writer", number)
        if first != 15:
            world.due()
            world.tier(table)
    read = plan(world, table)

    def row(key: int) -> tuple[list[dict[str, object]], int]:
        opened.clear()
        return read.rows(ReadScan(conditions=(equal("region", "north"), equal("id", key)))).to_pylist(), len(opened)

    whole = sorted(read.rows()["id"].to_pylist())
    assert len(opened) == 3
    assert whole == list(range(30))
    for key, n in ((3, 0), (14, 1), (17, 3), (29, 2)):
        rows, count = row(key)
        assert rows == [{"region": "north", "id": key, "n": n}]
        assert count == 1
    assert row(100) == ([], 0)


DAYS = [date.min, date(1970, 1, 1), date.max]
BIRTHS = pa.schema(
    [pa.field("day", pa.date32(), nullable=False), pa.field("id", pa.int64(), nullable=False), pa.field("born", pa.date32())]
)


def days(*values: date) -> tuple[Day, ...]:
    return tuple(map(Day.of, values))


def test_conditions_on_dates_open_only_files_that_may_have_them(world: LakeWorld, opened: Opened) -> None:
    table = world.table("births", 1, ("day",), BIRTHS)
    for number in range(3):
        born = [None if number == 2 else date(2000 + number, 1, 1) + timedelta(place) for place in range(5)]
        rows = [{"day": day, "id": place, "born": born[place]} for day in DAYS for place in range(5)]
        world.storage.append(table.path, pa.RecordBatch.from_pylist(rows, BIRTHS), "writer", number)
        world.due()
        world.tier(table)
    read = plan(world, table)
    assert len(ids(read)) == 45
    for condition, count in (
        (Filter("day", Operator.EQUAL, days(DAYS[0])), 3),
        (Filter("day", Operator.LESS, days(DAYS[0])), 0),
        (Filter("day", Operator.LESS_OR_EQUAL, days(DAYS[1])), 6),
        (Filter("day", Operator.GREATER, days(DAYS[1])), 3),
        (Filter("day", Operator.GREATER_OR_EQUAL, days(DAYS[0])), 9),
        (Filter("day", Operator.IN, (*days(DAYS[0], DAYS[2]), None)), 6),
        (Filter("day", Operator.IS_NULL), 0),
        (Filter("day", Operator.EQUAL, (0,)), 9),  # a number is no date
        (Filter("born", Operator.EQUAL, days(date(2000, 1, 5))), 3),
        (Filter("born", Operator.EQUAL, days(date(2000, 1, 6))), 0),
        (Filter("born", Operator.GREATER, days(date(2000, 1, 5))), 3),
        (Filter("born", Operator.IS_NULL), 3),
        (Filter("born", Operator.GREATER, (Day(-(2**31)),)), 6),
        (Filter("born", Operator.LESS, (Day(-(2**40)),)), 0),
        (Filter("born", Operator.LESS, (0,)), 6),
    ):
        opened.clear()
        ids(read, condition)
        assert len(opened) == count, condition


@pytest.mark.parametrize("has_key", [False, True])
def test_a_file_with_dates_beyond_those_of_python_is_read(world: LakeWorld, opened: Opened, has_key: bool) -> None:
    schema = pa.schema([pa.field("day", pa.date32(), nullable=False), pa.field("id", pa.int64(), nullable=False)])
    table = world.primary_key_table("t", 1, schema, ("day", "id")) if has_key else world.table("t", 1, schema=schema)
    numbers = [-(2**31), 0, 2**31 - 1]
    rows = pa.RecordBatch.from_arrays([pa.array(numbers, pa.int32()).view(pa.date32()), pa.array(range(3), pa.int64())], schema=schema)
    (world.storage.upsert if has_key else world.storage.append)(table.path, rows, "writer", 0)
    world.tier(table)
    read = plan(world, table)
    for operator, day, expected in (
        (Operator.EQUAL, -(2**31), [0]),
        (Operator.LESS, 0, [0]),
        (Operator.GREATER, 0, [2]),
        (Operator.GREATER_OR_EQUAL, -(2**31), [0, 1, 2]),
        (Operator.GREATER, 2**31, []),
    ):
        assert ids(read, Filter("day", operator, (Day(day),))) == expected
    opened.clear()
    assert ids(read, equal("id", 7)) == []
    assert opened == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("has_key", [False, True])
def test_a_read_with_conditions_has_all_rows_for_which_they_are_true(world: LakeWorld, seed: int, has_key: bool) -> None:
    choose = random.Random(seed)
    keys = ("region", "id")
    table = world.primary_key_table("t", 2, VISITS, keys, ("region",)) if has_key else world.table("t", 2, ("region",), VISITS, ("id",))
    write = world.storage.upsert if has_key else world.storage.append
    for number in range(6):
        rows = {(choose.choice("ab"), choose.randrange(30)): choose.choice([None, *range(-2, 3)]) for _ in range(choose.randint(1, 12))}
        batch = pa.RecordBatch.from_pylist([{"region": region, "id": key, "n": n} for (region, key), n in rows.items()], VISITS)
        write(table.path, batch, "writer", number)
        if number < 5:
            world.due()
            world.tier(table)
    read = plan(world, table)
    whole = read.rows().to_pylist()

    for _ in range(40):
        conditions = [condition(choose) for _ in range(choose.randint(1, 2))]
        rows = read.rows(ReadScan(conditions=tuple(pushed for pushed, _ in conditions))).to_pylist()
        needed = [row for row in whole if all(is_true(row) for _, is_true in conditions)]
        assert sorted(map(repr, [row for row in rows if all(is_true(row) for _, is_true in conditions)])) == sorted(map(repr, needed))


def condition(choose: random.Random) -> tuple[Condition, Callable[[dict[str, object]], bool]]:
    """Returns a condition, and whether it is true for a row."""
    column = choose.choice(["region", "id", "n"])
    values = {"region": ["a", "b", ""], "id": [*range(-1, 31), 7.5], "n": [*range(-3, 4), 0.5]}[column]
    literals = tuple(choose.choice(values) for _ in range(2))
    comparisons: dict[Operator, Callable[[object], bool]] = {
        Operator.EQUAL: lambda value: value == literals[0],
        Operator.LESS: lambda value: value < literals[0],  # type: ignore[operator]
        Operator.LESS_OR_EQUAL: lambda value: value <= literals[0],  # type: ignore[operator]
        Operator.GREATER: lambda value: value > literals[0],  # type: ignore[operator]
        Operator.GREATER_OR_EQUAL: lambda value: value >= literals[0],  # type: ignore[operator]
        Operator.NOT_EQUAL: lambda value: value != literals[0],
        Operator.IN: lambda value: value in literals,
    }
    operator = choose.choice([*comparisons, Operator.IS_NULL, Operator.IS_NOT_NULL])
    if operator in comparisons:
        compared = Filter(column, operator, literals if operator is Operator.IN else literals[:1])  # type: ignore[arg-type]
        return compared, lambda row: row[column] is not None and comparisons[operator](row[column])
    return Filter(column, operator), lambda row: (row[column] is None) is (operator is Operator.IS_NULL)
