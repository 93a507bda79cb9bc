"""Filters of rows before they travel to the engine: no row is dropped for which the engine may find the conditions true."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.plain_conditions import COMPARISONS, truth_of
from tiering.model.reading.conditions import AllOf, AnyOf, Condition, Filter, Not, Operator
from tiering.model.sql_types import Day, Instant
from tiering.union_read.pushdown.row_filter import applicable, filtered

EPOCH = datetime(1970, 1, 1)
TEXTS = st.sampled_from(["", "a", "ab", "abc", "b", "B", "ä", "\U0001f600", "\uffff", "%", "a_"])
MILLISECONDS = st.integers(-2, 2).map(lambda number: EPOCH + timedelta(milliseconds=number))
REALS = st.sampled_from([0.0, -0.0, 1.5, 2.0**53, math.inf, -math.inf, math.nan, -math.nan, 1e-300, 0.1])
DAYS = st.dates() | st.sampled_from([date.min, date(1969, 12, 31), date(1970, 1, 1), date.max])
SINGLES = st.sampled_from([0.0, -0.0, 1.5, 0.10000000149011612, math.nan, -math.nan, math.inf])


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.sampled_from([0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))])


COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), TEXTS),
    "tiny": (pa.int8(), whole(8)),
    "number": (pa.int32(), whole(32)),
    "big": (pa.int64(), whole(64) | st.just(2**53 + 1)),
    "real": (pa.float64(), REALS),
    "single": (pa.float32(), SINGLES),
    "truth": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), DAYS),
    "local": (pa.timestamp("us"), MILLISECONDS),
    "coarse": (pa.timestamp("ms"), MILLISECONDS),
    "zoned": (pa.timestamp("us", "UTC"), MILLISECONDS.map(lambda moment: moment.replace(tzinfo=UTC))),
}
SCHEMA = pa.schema([pa.field(name, kind) for name, (kind, _) in COLUMNS.items()])
ROWS = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in COLUMNS.items()})
LITERALS = {
    "text": TEXTS,
    **dict.fromkeys(("tiny", "number", "big"), whole(64) | whole(8) | st.sampled_from([0.5, math.nan, -1e30, 2.0**63])),
    **dict.fromkeys(("real", "single"), REALS | whole(64) | st.just(2**53 + 1)),
    "truth": st.booleans(),
    "day": DAYS.map(Day.of) | (whole(32) | whole(64)).map(Day),
    **dict.fromkeys(("local", "coarse", "zoned"), st.integers(-3_000, 3_000).map(Instant)),
}


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    name = draw(st.sampled_from(list(COLUMNS)))
    texts = [Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS] if name == "text" else []
    operator = draw(st.sampled_from([*COMPARISONS, *texts, Operator.IN, Operator.IS_NULL, Operator.IS_NOT_NULL]))
    if operator in (Operator.IS_NULL, Operator.IS_NOT_NULL):
        return Filter(name, operator)
    literals = LITERALS[name] if operator in texts else st.none() | LITERALS[name]
    count = draw(st.integers(1, 3)) if operator is Operator.IN else 1
    return Filter(name, operator, tuple(draw(literals) for _ in range(count)))


CONDITIONS: st.SearchStrategy[Condition] = st.recursive(
    filters(),
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(lambda some: AllOf(tuple(some))),
        st.lists(parts, min_size=1, max_size=3).map(lambda some: AnyOf(tuple(some))),
        parts.map(Not),
    ),
    max_leaves=4,
)


@given(rows=st.lists(ROWS, max_size=8), conditions=st.lists(CONDITIONS, min_size=1, max_size=3))
def test_the_rows_are_those_for_which_all_conditions_are_true(rows: list[dict[str, Any]], conditions: list[Condition]) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    expected = [row for row in rows if all(truth_of(condition, row) is True for condition in conditions)]

    kept = filtered(batch, conditions)

    assert [tuple(map(repr, row.values())) for row in kept.to_pylist()] == [
        tuple(map(repr, row.values())) for row in pa.RecordBatch.from_pylist(expected, schema=SCHEMA).to_pylist()
    ]


def test_nan_is_in_a_list_with_nan_whatever_its_bits() -> None:
    batch = pa.record_batch({"real": [math.nan, -math.nan, 1.0, None]}, schema=pa.schema([("real", pa.float64())]))

    assert filtered(batch, [Filter("real", Operator.IN, (math.nan, 2.0))]).num_rows == 2
    assert filtered(batch, [Not(Filter("real", Operator.IN, (math.nan, 2.0)))]).column("real").to_pylist() == [1.0]


@given(days=st.lists(whole(32) | st.integers(-(2**31), 2**31 - 1), min_size=1), literals=st.lists(whole(32) | whole(64), min_size=1))
def test_dates_beyond_those_of_python_are_compared(days: list[int], literals: list[int]) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(days, pa.int32()).view(pa.date32())], names=["day"])

    def kept(operator: Operator, *values: int) -> list[int]:
        rows = filtered(batch, [Filter("day", operator, tuple(map(Day, values)))])
        return list(rows.column("day").cast(pa.int32()).to_pylist())

    assert kept(Operator.LESS, literals[0]) == [day for day in days if day < literals[0]]
    assert kept(Operator.NOT_EQUAL, literals[0]) == [day for day in days if day != literals[0]]
    assert kept(Operator.IN, *literals, days[0]) == [day for day in days if day in (*literals, days[0])]


UNKNOWN: dict[str, tuple[pa.DataType, Any, Any]] = {
    "a decimal": (pa.decimal128(9, 2), Decimal("1.10"), 1.1),
    "a date that is compared with a text": (pa.date32(), date(2026, 1, 1), "2026-01-01"),
    "a date that is compared with a number": (pa.date32(), date(1970, 1, 6), 5),
    "a date that is compared with a time": (pa.date32(), date(1970, 1, 1), Instant(0)),
    "a number that is compared with a date": (pa.int32(), 5, Day(5)),
    "a time that is compared with a date": (pa.timestamp("us"), EPOCH, Day(0)),
    "milliseconds that are compared with a date": (pa.date64(), date(1970, 1, 1), Day(0)),
    "bytes": (pa.binary(), b"a", "b"),
    "nanoseconds": (pa.timestamp("ns"), EPOCH, Instant(1)),
    "a text that is compared with a number": (pa.string(), "1", 2),
    "a number that is compared with a text": (pa.int64(), 1, "2"),
    "a number that is compared with a truth": (pa.int64(), 0, True),
    "a list": (pa.list_(pa.int64()), [1], 2),
}


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.parametrize("negated", [False, True])
def test_a_comparison_that_is_not_known_exactly_keeps_all_rows(name: str, negated: bool) -> None:
    kind, value, literal = UNKNOWN[name]
    batch = pa.RecordBatch.from_arrays([pa.array([value, None], kind)], names=["x"])
    unknown: Condition = Filter("x", Operator.EQUAL, (literal,))
    condition = Not(unknown) if negated else unknown

    assert filtered(batch, [condition, AnyOf((condition, Filter("x", Operator.IS_NULL)))]).num_rows == 2
    assert filtered(batch, [AllOf((condition, Filter("x", Operator.IS_NULL)))]).num_rows == 1


def test_a_condition_on_a_column_that_the_rows_lack_keeps_all_rows() -> None:
    assert applicable([Filter("other", Operator.IS_NULL)], SCHEMA) == ()
