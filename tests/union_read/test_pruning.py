"""Pushdown of conditions: a read of only the needed partitions, buckets and files has all the rows that a read of everything has."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import examples
from support.fresh.union_reads import PlannedRead, planned_read
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, in_lakes
from support.values.plain_conditions import COMPARISONS, truth_of
from support.worlds.lake_world import LakeWorld
from tiering.errors import InvalidArgument, SourceChanged
from tiering.lake.iceberg.reading.bucket_scan import IcebergFilesReader
from tiering.lake.iceberg.reading.row_scan import IcebergFileReader
from tiering.model.reading.conditions import AllOf, AnyOf, Condition, Filter, Not, Operator
from tiering.model.reading.open_reads import AGAIN
from tiering.model.reading.scans import ReadPart, ReadScan
from tiering.model.schema.changes import additions
from tiering.model.sql_types import Day, Instant
from tiering.model.tables import TableInfo
from tiering.union_read.primary_key.key_merge import MergedRows
from tiering.union_read.readers import LogRows, RowReader
from tiering.wire.read_scans import scan_from_pb, scan_to_pb

SCHEMA = pa.schema(
    [
        pa.field("region", pa.string(), nullable=False),
        pa.field("year", pa.int16(), nullable=False),
        pa.field("customer", pa.int32(), nullable=False),
        pa.field("product", pa.string(), nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("small", pa.int16(), nullable=False),
        pa.field("seen", pa.date32()),
        pa.field("text", pa.string()),
        pa.field("tiny", pa.int8()),
        pa.field("real", pa.float64()),
        pa.field("single", pa.float32()),
        pa.field("truth", pa.bool_()),
        pa.field("moment", pa.timestamp("ms", "UTC")),
    ]
)
LONG = "a text that is longer than the bounds of a column in a manifest "
TEXTS = ["", "a", LONG, LONG + "a", LONG + "\U0001f600", LONG + "\uffff", "\U0010ffff" * 20, "ä"]
REALS = [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, -7.25]
MOMENTS = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=number) for number in (-1, 0, 1, 500)]
DAYS = [date.min, date(1969, 12, 31), date(1970, 1, 1), date(2026, 1, 31), date.max]
VALUES: dict[str, list[Any]] = {
    "region": ["north", "south", "5"],
    "year": [-1, 2025, 2026],
    "customer": [0, 1, -1, 2**31 - 1],
    "product": ["", "p", "pp", "ä"],
    "day": DAYS,
    "small": [-(2**15), 0, 2**15 - 1],
    "seen": [None, *DAYS[1:]],
    "text": [None, *TEXTS],
    "tiny": [None, -128, 0, 127],
    "real": [None, *REALS],
    "single": [None, 0.0, 0.1, math.nan, 0.7],
    "truth": [None, True, False],
    "moment": [None, *MOMENTS],
}
LITERALS: dict[str, st.SearchStrategy[Any]] = {
    **{name: st.sampled_from([*VALUES[name], "x", LONG[:20], LONG + "b"]) for name in ("region", "product", "text")},
    **{name: st.sampled_from([*VALUES[name], 3, 2**40, 0.5, 2025.0]) for name in ("year", "customer", "small", "tiny")},
    **dict.fromkeys(("day", "seen"), st.sampled_from([None, *map(Day.of, DAYS)]) | st.integers(-(2**31), 2**40).map(Day)),
    **{name: st.sampled_from([*VALUES[name], 0.10000000149011612, 1, 2**53 + 1]) for name in ("real", "single")},
    "truth": st.sampled_from(VALUES["truth"]),
    "moment": st.sampled_from(VALUES["moment"]).map(lambda moment: moment and Instant.of(moment)) | st.integers(0, 9).map(Instant),
}


@st.composite
def filters(draw: st.DrawFn, names: tuple[str, ...] = tuple(VALUES)) -> Filter:
    name = draw(st.sampled_from(names))
    texts = [Operator.STARTS_WITH] if pa.types.is_string(SCHEMA.field(name).type) else []
    operator = draw(st.sampled_from([Operator.EQUAL, *COMPARISONS, *texts, Operator.IN, Operator.IS_NULL, Operator.IS_NOT_NULL]))
    if operator in (Operator.IS_NULL, Operator.IS_NOT_NULL):
        return Filter(name, operator)
    literals = LITERALS[name].filter(lambda value: value is not None) if operator in texts else LITERALS[name]
    values = tuple(draw(literals) for _ in range(draw(st.integers(1, 3)) if operator is Operator.IN else 1))
    if operator in texts and draw(st.booleans()):
        return Filter(name, operator, tuple(value.swapcase() for value in values), ignores_case=True)
    return Filter(name, operator, values)


def trees(leaves: st.SearchStrategy[Filter]) -> st.SearchStrategy[Condition]:
    return st.recursive(
        leaves,
        lambda parts: st.one_of(
            st.lists(parts, min_size=1, max_size=3).map(lambda some: AllOf(tuple(some))),
            st.lists(parts, min_size=1, max_size=3).map(lambda some: AnyOf(tuple(some))),
            parts.map(Not),
        ),
        max_leaves=4,
    )


KEYS = st.tuples(*(filters((name,)) for name in ("region", "year", "customer", "small", "day", "product"))).map(list)
CONDITIONS = st.lists(trees(filters()), min_size=1, max_size=3) | KEYS


def rows_at(first: int, count: int) -> pa.RecordBatch:
    """Rows in which the values of each column take turns, at another pace in each column, so that all combine."""
    paces = dict(zip(VALUES, (1, 3, 1, 4, 2, 3, 7, 5, 3, 7, 2, 5, 3), strict=True))
    rows = [
        {name: values[number // paces[name] % len(values)] for name, values in VALUES.items()} for number in range(first, first + count)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


@pytest.fixture(
    scope="module", params=[(ICEBERG, ()), (ICEBERG, ("day",)), (ICEBERG_CLEAN, ("customer", "small", "day", "product"))], ids=str
)
def read(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlannedRead]:
    """A table with rows in the lake, from several rounds, and in the log."""
    kind, bucket_keys = request.param
    world = LakeWorld(tmp_path_factory.mktemp("lake"), kind=kind)
    table = world.table("orders", 3, ("region", "year"), SCHEMA, bucket_keys)
    for number, (first, count) in enumerate([(0, 40), (40, 20)]):
        world.storage.append(table.path, rows_at(first, count), "writer", number)
        world.tier(table)
    world.storage.append(table.path, rows_at(60, 30), "writer", 2)
    yield plan(world, table)
    world.close()


def plan(world: LakeWorld, table: TableInfo) -> PlannedRead:
    return planned_read(world.storage, lambda name: world.lake, table.path)


def readers(read: PlannedRead, *conditions: Condition) -> list[RowReader]:
    return [reader for task in read.tasks(ReadScan(conditions=conditions)) for reader in task.readers]


@pytest.fixture(scope="module")
def all_rows(read: PlannedRead) -> pa.Table:
    return read.rows()


def matching(rows: pa.Table, conditions: list[Condition]) -> list[str]:
    return sorted(repr(row) for row in rows.to_pylist() if all(truth_of(condition, row) is True for condition in conditions))


@settings(max_examples=examples(20))
@given(conditions=CONDITIONS)
def test_a_read_with_conditions_has_all_rows_for_which_they_are_true(
    read: PlannedRead, all_rows: pa.Table, conditions: list[Condition]
) -> None:
    needed = matching(all_rows, conditions)
    assert matching(read.rows(ReadScan(conditions=tuple(conditions))), conditions) == needed
    count = read.count(ReadScan(conditions=tuple(conditions)))
    assert count is None or count == len(needed)


@settings(max_examples=examples(10))
@given(conditions=st.lists(trees(filters(("region", "year"))), max_size=2))
def test_the_number_of_rows_of_partitions_is_known_without_reading(
    read: PlannedRead, all_rows: pa.Table, conditions: list[Condition]
) -> None:
    assert read.count(ReadScan(conditions=tuple(conditions))) == len(matching(all_rows, conditions))


@given(conditions=CONDITIONS)
def test_conditions_are_the_same_after_their_way_over_the_wire(conditions: list[Condition]) -> None:
    scan = ReadScan(conditions=tuple(conditions), limit=3)
    assert repr(scan_from_pb(scan_to_pb(scan))) == repr(scan)


def test_a_condition_on_a_partition_reads_only_its_files_and_buckets(read: PlannedRead) -> None:
    chosen = readers(read, Filter("region", Operator.EQUAL, ("south",)), Filter("year", Operator.IN, (2025, 2026)))

    assert {name for reader in chosen if (name := partition_of(reader)) is not None} == {"south$2025", "south$2026"}
    assert {type(reader) for reader in chosen} == {IcebergFileReader, LogRows}


def test_a_text_in_any_case_leaves_out_no_file_with_the_text(read: PlannedRead, all_rows: pa.Table) -> None:
    condition = Filter("region", Operator.STARTS_WITH, ("SOUTH",), ignores_case=True)
    assert matching(read.rows(ReadScan(conditions=(condition,))), [condition]) == (needed := matching(all_rows, [condition]))
    assert len(needed) > 0


def partition_of(reader: RowReader) -> str | None:
    assert isinstance(reader, (IcebergFileReader, LogRows))
    return reader.partition_name


def literal(value: Any) -> Any:
    return Day.of(value) if isinstance(value, date) else value


def test_a_condition_on_all_bucket_keys_reads_one_bucket_of_the_log(read: PlannedRead) -> None:
    table = read.cluster.table(read.moment.path)
    row = rows_at(60, 1).to_pylist()[0]
    keys = [Filter(name, Operator.EQUAL, (literal(row[name]),)) for name in table.bucket_keys]

    buckets = {reader.reader.split.bucket.bucket_id for reader in readers(read, *keys) if isinstance(reader, LogRows)}

    assert len(buckets) == 1 or not keys


def test_no_value_that_both_conditions_allow_reads_nothing_of_the_log(read: PlannedRead) -> None:
    keys = read.cluster.table(read.moment.path).bucket_keys
    nothing = [Filter(name, Operator.EQUAL, (literal(value),)) for name in keys for value in VALUES[name][:2]]
    assert not keys or not any(isinstance(reader, LogRows) for reader in readers(read, *nothing))


def test_bounds_of_columns_leave_out_files(read: PlannedRead) -> None:
    files = [reader for reader in readers(read) if isinstance(reader, IcebergFileReader)]
    kept = [reader for reader in readers(read, Filter("text", Operator.LESS, ("A",))) if isinstance(reader, IcebergFileReader)]
    assert 0 < len(kept) < len(files)


VISITS = pa.schema(
    [pa.field("day", pa.date32(), nullable=False), pa.field("born", pa.date32(), nullable=False), pa.field("seen", pa.date32())]
)
BORN = [date(1900 + number, 1, 1) for number in range(40)]


@pytest.fixture(scope="module", params=[(ICEBERG, False), (ICEBERG_CLEAN, False), (ICEBERG_CLEAN, True)], ids=["log", "clean", "keyed"])
def visits(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlannedRead]:
    """A table with a partition for each of DAYS, which `born` divides into 4 buckets. The dates `seen` of a round follow those of the
    round before. The log has rows that the lake lacks."""
    kind, has_key = request.param
    world = LakeWorld(tmp_path_factory.mktemp("visits"), kind=kind)
    table = (
        world.primary_key_table("visits", 4, VISITS, ("day", "born"), ("day",))
        if has_key
        else world.table("visits", 4, ("day",), VISITS, ("born",))
    )
    write = world.storage.upsert if has_key else world.storage.append
    for number in range(3):
        dates = [None, *(date(2000 + number, 1, 1) + timedelta(place) for place in range(len(BORN) - 1))]
        rows = [{"day": day, "born": born, "seen": time} for day in DAYS for born, time in zip(BORN, dates, strict=True)]
        write(table.path, pa.RecordBatch.from_pylist(rows, VISITS), "writer", number)
        if number < 2:
            world.tier(table)
    yield plan(world, table)
    world.close()


def files_and_buckets(read: PlannedRead, *conditions: Condition) -> tuple[set[str], set[tuple[str | None, int]]]:
    """Returns the lake files of a read with conditions, and partition and number of the buckets of its log."""
    files, buckets = set[str](), set[tuple[str | None, int]]()
    pending: list[Any] = list(readers(read, *conditions))
    while pending:
        reader = pending.pop()
        match reader:
            case LogRows():
                buckets.add((reader.partition_name, reader.reader.split.bucket.bucket_id))
            case IcebergFileReader():
                files.add(reader.file.location)
            case IcebergFilesReader():
                files |= {file.location for file in reader.files}
            case MergedRows():
                buckets |= {(changes.split.partition_name, changes.split.bucket.bucket_id) for changes in reader.changes}
                pending += reader.base
    return files, buckets


def test_a_condition_on_a_date_partition_reads_only_its_files_and_buckets(visits: PlannedRead) -> None:
    files, buckets = files_and_buckets(visits)
    assert len(buckets) == 4 * len(DAYS)
    for operator, days, count in (
        (Operator.EQUAL, (DAYS[2],), 1),
        (Operator.NOT_EQUAL, (DAYS[2],), 4),
        (Operator.LESS, (DAYS[0],), 0),
        (Operator.LESS_OR_EQUAL, (DAYS[1],), 2),
        (Operator.GREATER, (DAYS[3],), 1),
        (Operator.GREATER_OR_EQUAL, (DAYS[0],), 5),
        (Operator.IN, (DAYS[0], DAYS[4]), 2),
        (Operator.IS_NULL, (), 0),
    ):
        condition = Filter("day", operator, tuple(map(Day.of, days)))
        needed_files, needed_buckets = files_and_buckets(visits, condition)
        assert len(needed_buckets) == 4 * count, condition
        if operator is not Operator.NOT_EQUAL:  # which leaves out no file by its bounds
            assert len(needed_files) * len(DAYS) == len(files) * count, condition


def test_equality_with_a_date_as_bucket_key_reads_one_bucket_of_each_partition(visits: PlannedRead) -> None:
    files, buckets = files_and_buckets(visits)
    for born in BORN[:8]:
        needed_files, needed_buckets = files_and_buckets(visits, Filter("born", Operator.EQUAL, (Day.of(born),)))
        assert len(needed_files) * 4 == len(files)
        assert len(needed_buckets) * 4 == len(buckets)


@pytest.mark.parametrize("days", [-(2**31), 2**31 - 1, -(2**31) - 1, 2**31, -(2**63), 2**63 - 1])
def test_a_date_beyond_those_of_python_is_no_error(visits: PlannedRead, days: int) -> None:
    for column in VISITS.names:
        for operator in (Operator.EQUAL, Operator.IN):
            assert visits.rows(ReadScan(conditions=(Filter(column, operator, (Day(days),)),))).num_rows == 0
        below = visits.rows(ReadScan(conditions=(Filter(column, Operator.LESS, (Day(days),)),))).num_rows
        whole = visits.rows()[column]
        assert below == (len(whole) - whole.null_count if days > 0 else 0)


@pytest.mark.parametrize("operator", [Operator.EQUAL, Operator.IN, Operator.LESS])
def test_a_number_is_not_taken_for_a_date(visits: PlannedRead, operator: Operator) -> None:
    for column in VISITS.names:
        condition = Filter(column, operator, (0,))
        assert files_and_buckets(visits, condition) == files_and_buckets(visits)
        assert visits.rows(ReadScan(conditions=(condition,))).num_rows == visits.rows().num_rows
        assert visits.count(ReadScan(conditions=(condition,))) is None


def test_bounds_of_a_date_column_leave_out_files(visits: PlannedRead) -> None:
    has_key = bool(visits.cluster.table(visits.moment.path).primary_key)  # then the second round replaced all rows of the first
    files, _ = files_and_buckets(visits)
    kept, _ = files_and_buckets(visits, Filter("seen", Operator.LESS, (Day.of(date(2001, 1, 1)),)))
    assert len(kept) == (0 if has_key else len(files) // 2)


@in_lakes(ICEBERG)
@pytest.mark.parametrize("operator", [Operator.GREATER, Operator.GREATER_OR_EQUAL, Operator.NOT_EQUAL])
@pytest.mark.parametrize("column", ["real", "single"])
def test_nan_is_greater_than_the_bounds_of_its_file(world: LakeWorld, operator: Operator, column: str) -> None:
    table = world.table("numbers", 1, schema=SCHEMA)
    rows = rows_at(0, 2).to_pylist()
    world.storage.append(table.path, pa.RecordBatch.from_pylist([{**row, column: math.nan} for row in rows], SCHEMA), "writer", 0)
    world.storage.append(table.path, pa.RecordBatch.from_pylist([{**rows[0], column: 1.0}], SCHEMA), "writer", 1)
    world.tier(table)

    read = plan(world, table).rows(ReadScan(conditions=(Filter(column, operator, (2.0,)),)))

    assert sum(math.isnan(value) for value in read[column].to_pylist()) == 2


@in_lakes(ICEBERG)
def test_a_literal_is_not_rounded_to_a_column_of_floats(world: LakeWorld) -> None:
    table = world.table("numbers", 1, schema=SCHEMA)
    row = {**rows_at(0, 1).to_pylist()[0], "single": 0.7}  # as FLOAT it is 0.699999988
    world.storage.append(table.path, pa.RecordBatch.from_pylist([row], SCHEMA), "writer", 0)
    world.tier(table)
    for condition in (Filter("single", Operator.LESS, (0.7,)), Not(Filter("single", Operator.IN, (0.7,)))):
        assert plan(world, table).rows(ReadScan(conditions=(condition,))).num_rows == 1


@in_lakes(ICEBERG)
def test_a_partition_that_was_dropped_since_is_an_error_whatever_the_condition(world: LakeWorld) -> None:
    table = world.table("orders", 1, ("region",), SCHEMA)
    world.storage.append(table.path, rows_at(0, 9), "writer", 0)
    read = plan(world, table)
    world.storage.drop_partition(table.path, "south")
    with pytest.raises(SourceChanged, match=r"a partition of sales\.orders was dropped") as failure:
        read.rows(ReadScan(conditions=(Filter("region", Operator.EQUAL, ("south",)),)))
    assert failure.value.hint == AGAIN


@in_lakes(ICEBERG)
@pytest.mark.parametrize("limit", [0, 1, 9, 10, 11, 100])
def test_a_limited_read_has_as_many_rows_as_needed_and_no_task_more(world: LakeWorld, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.union_read.tasks.TASK_BYTES", 1)
    table = world.table("orders")
    for first in range(0, 30, 10):
        world.append(table, first, 10)
        world.tier(table) if first < 20 else None
    read = plan(world, table)

    tasks = read.tasks(ReadScan(limit=limit))

    rows = [sum(batch.num_rows for batch in task.read()) for task in tasks]
    assert all(count <= limit for count in rows)
    assert min(limit, 30) <= sum(rows)
    assert sum(rows[:-1]) < max(limit, 1)
    assert sum(rows) == len(set(read.rows(ReadScan(limit=limit))["id"].to_pylist()))


@in_lakes(ICEBERG)
def test_a_limit_counts_only_rows_that_the_conditions_select(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    world.append(table, 10, 10)
    rows = plan(world, table).rows(ReadScan(conditions=(Filter("id", Operator.GREATER_OR_EQUAL, (17,)),), limit=3))
    assert set(rows["id"].to_pylist()) == {17, 18, 19}


@in_lakes(ICEBERG, ICEBERG_CLEAN)
def test_columns_of_lake_files_are_read_alone(world: LakeWorld) -> None:
    nested = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("pair", nested), pa.field("map", pa.map_(pa.string(), pa.int64()))])
    table = world.table("orders", 1, schema=schema)
    rows = [{"id": 1, "pair": {"x": 1, "y": ["a", None]}, "map": [("a", 1)]}, {"id": 2, "pair": None, "map": None}]
    world.storage.append(table.path, pa.RecordBatch.from_pylist(rows, schema), "writer", 0)
    world.tier(table)
    world.storage.alter_table(table.path, {}, additions([pa.field("later", pa.int16())]))
    read = plan(world, world.storage.table(table.path))
    whole = read.rows()
    for columns in (["id"], ["pair"], ["map"], ["later"], ["later", "map", "id"]):
        assert read.rows(ReadScan(columns=tuple(columns))) == whole.select(columns)


@in_lakes(ICEBERG)
def test_an_unknown_column_is_named(world: LakeWorld) -> None:
    table = world.table("orders")
    with pytest.raises(InvalidArgument, match="has no column 'price'"):
        plan(world, table).tasks(ReadScan(columns=("id", "price")))


@in_lakes(ICEBERG)
def test_only_reading_tells_the_number_of_rows_that_other_columns_select(world: LakeWorld) -> None:
    table = world.table("orders")
    world.append(table, 0, 10)
    world.tier(table)
    world.iceberg(table).delete("id = 3")
    world.append(table, 10, 2)
    read = plan(world, table)
    assert read.count() == read.rows().num_rows == 11
    assert read.count(ReadScan(part=ReadPart.LOG_ROWS)) == 2
    assert read.count(ReadScan(conditions=(Filter("id", Operator.IS_NOT_NULL),))) is None
