"""Filters against DuckDB, whose comparisons (three-valued logic, order of NaN, bytes of strings) are Spark's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sys_tables.columns import column, record_batch, schema_of
from sys_tables.scan import Filter, Instant, Operator, ScanRequest, select
from tiering.errors import InvalidArgument


@dataclass(frozen=True)
class Row:
    text: str | None = column("Text.")
    number: int | None = column("Number.")
    real: float | None = column("Real.")
    truth: bool | None = column("Truth.")
    moment: datetime | None = column("Moment.")
    names: tuple[str, ...] | None = column("Names.")


SCHEMA = schema_of(Row)
TEXTS = st.sampled_from(["", "a", "ab", "abc", "b", "B", "ä", "\U0001f600", "\uffff", "%", "a_"])
NUMBERS = st.sampled_from([0, 1, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)])
REALS = st.sampled_from([0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, 1e-300])
MOMENTS = st.integers(-3, 3).map(lambda days: datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC) + timedelta(days=days))
VALUES: dict[str, st.SearchStrategy[Any]] = {"text": TEXTS, "number": NUMBERS, "real": REALS, "truth": st.booleans(), "moment": MOMENTS}
ROWS = st.builds(Row, **{name: st.none() | values for name, values in VALUES.items()}, names=st.none() | st.just(("x",)))
ONE_VALUE = (Operator.EQUAL, Operator.NOT_EQUAL, Operator.LESS, Operator.LESS_OR_EQUAL, Operator.GREATER, Operator.GREATER_OR_EQUAL)


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    name = draw(st.sampled_from(list(VALUES)))
    values = (st.none() | VALUES[name]).map(lambda value: Instant.of(value) if isinstance(value, datetime) else value)
    operator = draw(st.sampled_from([*ONE_VALUE, Operator.IN, Operator.IS_NULL, Operator.IS_NOT_NULL]))
    if operator is Operator.IN:
        return Filter(name, operator, tuple(draw(st.lists(values, min_size=1, max_size=3))))
    if operator in ONE_VALUE:
        return Filter(name, operator, (draw(values),))
    return Filter(name, operator)


def sql_of(condition: Filter, parameters: list[Any]) -> str:
    if condition.operator in (Operator.IS_NULL, Operator.IS_NOT_NULL):
        return f"{condition.column} {condition.operator.value}"
    kind = {"text": "VARCHAR", "number": "BIGINT", "real": "DOUBLE", "truth": "BOOLEAN", "moment": "TIMESTAMPTZ"}[condition.column]
    parameters.extend(value.as_datetime() if isinstance(value, Instant) else value for value in condition.values)
    marks = ", ".join(f"CAST(? AS {kind})" for _ in condition.values)
    return f"{condition.column} {condition.operator.value} ({marks})"


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(ROWS, max_size=8), conditions=st.lists(filters(), min_size=1, max_size=3))
def test_filters_select_the_rows_that_sql_selects(rows: list[Row], conditions: list[Filter]) -> None:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    numbered = pa.table(record_batch(SCHEMA, rows).columns, schema=SCHEMA).append_column("n", pa.array(range(len(rows)), pa.int64()))
    connection.register("rows", numbered)
    parameters: list[Any] = []
    where = " AND ".join(sql_of(condition, parameters) for condition in conditions)
    expected = [n for (n,) in connection.execute(f"SELECT n FROM rows WHERE {where} ORDER BY n", parameters).fetchall()]
    selected = {id(row) for row in select(rows, SCHEMA, ScanRequest(filters=tuple(conditions)))}
    assert [n for n, row in enumerate(rows) if id(row) in selected] == expected


def rows_of(*texts: str | None) -> list[Row]:
    return [Row(text, None, None, None, None, None) for text in texts]


def texts_where(rows: list[Row], *conditions: Filter, limit: int | None = None) -> list[str | None]:
    return [row.text for row in select(rows, SCHEMA, ScanRequest(filters=conditions, limit=limit)) if isinstance(row, Row)]


def test_a_beginning_is_taken_literally_and_never_matches_null() -> None:
    rows = rows_of("a%b", "ab", None, "A%")
    assert texts_where(rows, Filter("text", Operator.STARTS_WITH, ("a%",))) == ["a%b"]
    assert texts_where(rows, Filter("text", Operator.STARTS_WITH, (None,))) == []


def test_an_empty_list_holds_nothing() -> None:
    assert texts_where(rows_of("a", None), Filter("text", Operator.IN)) == []


def test_the_limit_counts_rows_that_pass_and_draws_no_more_of_them() -> None:
    drawn = []

    def endless() -> Any:
        while True:
            drawn.append(1)
            yield Row("a" if len(drawn) % 2 else "b", None, None, None, None, None)

    wanted = ScanRequest(filters=(Filter("text", Operator.EQUAL, ("b",)),), limit=2)
    assert len(list(select(endless(), SCHEMA, wanted))) == 2
    assert len(drawn) == 4
    assert texts_where(rows_of("a"), limit=0) == []


def test_a_moment_beyond_the_range_of_datetime_compares() -> None:
    rows = [Row("now", None, None, None, datetime(2026, 3, 1, tzinfo=UTC), None)]
    assert texts_where(rows, Filter("moment", Operator.LESS, (Instant(2**63 - 1),))) == ["now"]


def test_nested_columns_can_be_null_but_not_compared() -> None:
    rows = [Row("with", None, None, None, None, ("x",)), *rows_of("without")]
    assert texts_where(rows, Filter("names", Operator.IS_NULL)) == ["without"]
    with pytest.raises(InvalidArgument, match=r"'names' is ARRAY<STRING>"):
        select(rows, SCHEMA, ScanRequest(filters=(Filter("names", Operator.EQUAL, ("x",)),)))


@pytest.mark.parametrize(
    ("condition", "complaint"),
    [
        (Filter("nothing", Operator.IS_NULL), "no column 'nothing'"),
        (Filter("text", Operator.EQUAL, (1,)), "'text' is STRING"),
        (Filter("number", Operator.EQUAL, (True,)), "'number' is BIGINT"),
        (Filter("truth", Operator.EQUAL, (1,)), "'truth' is BOOLEAN"),
        (Filter("moment", Operator.LESS, (5,)), "'moment' is TIMESTAMP"),
        (Filter("number", Operator.STARTS_WITH, (5,)), "'number' is BIGINT"),
        (Filter("text", Operator.EQUAL, ()), "one value, not 0"),
        (Filter("text", Operator.LESS, ("a", "b")), "one value, not 2"),
    ],
)
def test_a_filter_that_does_not_fit_names_the_column(condition: Filter, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        select([], SCHEMA, ScanRequest(filters=(condition,)))


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="-1"):
        select([], SCHEMA, ScanRequest(limit=-1))


def test_a_table_sees_the_one_value_a_column_must_have() -> None:
    scan = ScanRequest(
        filters=(
            Filter("a", Operator.GREATER, ("x",)),
            Filter("a", Operator.IN, ("x", None)),
            Filter("b", Operator.IN, ("x", "y")),
            Filter("c", Operator.EQUAL, (None,)),
            Filter("d", Operator.EQUAL, ("z",)),
        )
    )
    assert [scan.equals(name) for name in "abcde"] == ["x", None, None, "z", None]
