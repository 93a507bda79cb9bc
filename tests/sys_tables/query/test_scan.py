"""Conditions, orders and aggregates against DuckDB, whose comparisons (three-valued logic, NaN, bytes of strings) are Spark's."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sys_tables.declare.columns import record_batch
from sys_tables.declare.scan import Aggregate, Function, Order, ScanRequest
from sys_tables.query.ordering import aggregated, sorted_indices
from sys_tables.query.reading import RowColumns
from tiering.errors import InvalidArgument
from tiering.model.declare import column, schema_of
from tiering.model.reading.conditions import AllOf, AnyOf, Condition, Filter, Not, Operator
from tiering.model.reading.matching import matching
from tiering.model.sql_types import Instant


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


def conditions() -> st.SearchStrategy[Condition]:
    """Trees of AND, OR and NOT over filters."""
    return st.recursive(
        filters(),
        lambda parts: st.one_of(
            st.lists(parts, min_size=1, max_size=3).map(lambda some: AllOf(tuple(some))),
            st.lists(parts, min_size=1, max_size=3).map(lambda some: AnyOf(tuple(some))),
            parts.map(Not),
        ),
        max_leaves=4,
    )


KINDS = {"text": "VARCHAR", "number": "BIGINT", "real": "DOUBLE", "truth": "BOOLEAN", "moment": "TIMESTAMPTZ"}


def sql_of(condition: Condition, parameters: list[Any]) -> str:
    match condition:
        case AllOf(parts):
            return "(" + " AND ".join(sql_of(part, parameters) for part in parts) + ")"
        case AnyOf(parts):
            return "(" + " OR ".join(sql_of(part, parameters) for part in parts) + ")"
        case Not(part):
            return f"(NOT {sql_of(part, parameters)})"
        case Filter(column, Operator.IS_NULL | Operator.IS_NOT_NULL as operator):
            return f"({column} {operator.value})"
        case Filter(column, operator, values):
            parameters.extend(value.as_datetime() if isinstance(value, Instant) else value for value in values)
            marks = ", ".join(f"CAST(? AS {KINDS[column]})" for _ in values)
            return f"({column} {operator.value} ({marks}))"


def duckdb_of(rows: list[Row]) -> duckdb.DuckDBPyConnection:
    """With the table `rows`, and each row's number as n."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    numbered = pa.table(record_batch(SCHEMA, rows).columns, schema=SCHEMA).append_column("n", pa.array(range(len(rows)), pa.int64()))
    connection.register("rows", numbered)
    return connection


def selected(rows: list[Row], *wanted: Condition) -> list[Row]:
    return list(matching(RowColumns(rows, SCHEMA), SCHEMA, wanted).rows)


@given(rows=st.lists(ROWS, max_size=8), wanted=st.lists(conditions(), min_size=1, max_size=3))
def test_conditions_select_the_rows_that_sql_selects(rows: list[Row], wanted: list[Condition]) -> None:
    parameters: list[Any] = []
    where = " AND ".join(sql_of(condition, parameters) for condition in wanted)
    expected = duckdb_of(rows).execute(f"SELECT n FROM rows WHERE {where} ORDER BY n", parameters).fetchall()
    chosen = {id(row) for row in selected(rows, *wanted)}
    assert [n for n, row in enumerate(rows) if id(row) in chosen] == [n for (n,) in expected]


@given(
    rows=st.lists(ROWS, max_size=8),
    order=st.lists(st.builds(Order, st.sampled_from(list(VALUES)), st.booleans(), st.booleans()), min_size=1, max_size=3),
)
def test_rows_come_in_the_order_of_sql(rows: list[Row], order: list[Order]) -> None:
    keys = ", ".join(f"{key.column} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}" for key in order)
    expected = duckdb_of(rows).execute(f"SELECT n FROM rows ORDER BY {keys}, n").fetchall()
    assert sorted_indices(RowColumns(rows, SCHEMA), SCHEMA, order).to_pylist() == [n for (n,) in expected]


@given(
    rows=st.lists(ROWS, max_size=8),
    group_by=st.lists(st.sampled_from(["text", "number", "truth", "moment"]), unique=True, max_size=2),
    column=st.sampled_from(list(VALUES)),
)
def test_aggregates_are_those_of_sql(rows: list[Row], group_by: list[str], column: str) -> None:
    wanted = (Aggregate(Function.COUNT), *(Aggregate(function, column) for function in Function))
    answer = aggregated(RowColumns(rows, SCHEMA), SCHEMA, ScanRequest(group_by=tuple(group_by), aggregates=wanted))
    assert answer.schema.names == [*group_by, "count(*)", f"count({column})", f"min({column})", f"max({column})"]
    plain = ", ".join([*group_by, "count(*)", f"count({column})", f"min({column})", f"max({column})"])
    grouping = f" GROUP BY {', '.join(group_by)}" if group_by else ""
    expected = duckdb_of(rows).sql(f"SELECT {plain} FROM rows{grouping}").to_arrow_table()
    assert answer_set(answer.columns) == answer_set([column.combine_chunks() for column in expected.columns])


def answer_set(columns: list[Any]) -> set[tuple[str, ...]]:
    """Rows without their order; instants by their microseconds, NaN by its name, both zeros alike."""
    plain = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in columns]
    cells = [[repr(0.0 if isinstance(value, float) and value == 0 else value) for value in column.to_pylist()] for column in plain]
    return set(zip(*cells, strict=True))


def rows_of(*texts: str | None) -> list[Row]:
    return [Row(text, None, None, None, None, None) for text in texts]


def texts_where(rows: list[Row], *wanted: Condition) -> list[str | None]:
    return [row.text for row in selected(rows, *wanted)]


def test_a_piece_of_text_is_taken_literally_and_never_matches_null() -> None:
    rows = rows_of("a%b", "ab", None, "A%")
    assert texts_where(rows, Filter("text", Operator.STARTS_WITH, ("a%",))) == ["a%b"]
    assert texts_where(rows, Filter("text", Operator.CONTAINS, ("%",))) == ["a%b", "A%"]
    assert texts_where(rows, Filter("text", Operator.ENDS_WITH, ("%",))) == ["A%"]
    assert texts_where(rows, Not(Filter("text", Operator.CONTAINS, ("%",)))) == ["ab"]
    assert texts_where(rows, Filter("text", Operator.STARTS_WITH, (None,))) == []


def test_a_piece_of_text_may_match_in_upper_and_lower_case() -> None:
    rows = rows_of("Strasse", "STRASSE", "ÄRGER", None)
    for operator, piece in ((Operator.STARTS_WITH, "sT"), (Operator.ENDS_WITH, "Se"), (Operator.CONTAINS, "RASS")):
        assert texts_where(rows, Filter("text", operator, (piece,), ignores_case=True)) == ["Strasse", "STRASSE"]
    assert texts_where(rows, Filter("text", Operator.CONTAINS, ("ärg",), ignores_case=True)) == ["ÄRGER"]
    assert texts_where(rows, Not(Filter("text", Operator.CONTAINS, ("E",), ignores_case=True))) == []


def test_an_empty_list_holds_nothing() -> None:
    assert texts_where(rows_of("a", None), Filter("text", Operator.IN)) == []


def test_whole_numbers_beside_fractions_compare_exactly() -> None:
    rows = [Row(None, number, None, None, None, None) for number in (2**53, 2**53 + 1, None)]
    assert selected(rows, Filter("number", Operator.GREATER, (float(2**53),))) == rows[1:2]
    reals = [Row(None, None, real, None, None, None) for real in (float(2**53), math.nan)]
    assert [row.real for row in selected(reals, Filter("real", Operator.LESS, (2**53 + 1,)))] == [float(2**53)]


MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "number": NUMBERS | REALS | st.sampled_from([1.0, 0.5, float(2**53), 1e300]),
    "real": REALS | NUMBERS,
}


@given(
    column=st.sampled_from(list(MEMBERS)),
    rows=st.lists(ROWS, min_size=1, max_size=8),
    operator=st.sampled_from([*ONE_VALUE, Operator.IN]),
    data=st.data(),
)
def test_numbers_of_both_kinds_compare_without_rounding(column: str, rows: list[Row], operator: Operator, data: st.DataObject) -> None:
    members = data.draw(st.lists(MEMBERS[column], min_size=1, max_size=4 if operator is Operator.IN else 1))
    expected = [row for row in rows if holds(operator, getattr(row, column), members)]
    assert selected(rows, Filter(column, operator, tuple(members))) == expected


def holds(operator: Operator, value: int | float | None, members: list[int | float]) -> bool:
    """Compares integers with fractions exactly, as Python does. NaN equals itself and is above all else."""
    if value is None:
        return False
    mine, others = number_key(value), [number_key(member) for member in members]
    compared = {
        Operator.EQUAL: mine == others[0],
        Operator.NOT_EQUAL: mine != others[0],
        Operator.LESS: mine < others[0],
        Operator.LESS_OR_EQUAL: mine <= others[0],
        Operator.GREATER: mine > others[0],
        Operator.GREATER_OR_EQUAL: mine >= others[0],
        Operator.IN: mine in others,
    }
    return compared[operator]


def number_key(value: int | float) -> tuple[bool, int | float]:
    return (True, 0) if isinstance(value, float) and math.isnan(value) else (False, value)


@pytest.mark.parametrize(("column", "member"), [("number", int), ("real", float), ("moment", Instant)])
def test_an_in_list_is_a_set_and_not_a_loop(column: str, member: Callable[[Any], Any]) -> None:
    value = datetime(2026, 3, 1, tzinfo=UTC) if column == "moment" else member(7)
    row = replace(Row(None, None, None, None, None, None), **{column: value})
    source = RowColumns([row] * 200_000, SCHEMA)
    condition = Filter(column, Operator.IN, tuple(map(member, range(10**9, 10**9 + 10_000))))
    matching(source, SCHEMA, [Filter(column, Operator.IS_NOT_NULL)])  # makes the column
    begun = time.process_time()
    assert not matching(source, SCHEMA, [condition]).num_rows
    assert time.process_time() - begun < 0.5  # the set takes some 10 ms, a loop over the members several seconds


def test_a_moment_beyond_the_range_of_datetime_compares() -> None:
    rows = [Row("now", None, None, None, datetime(2026, 3, 1, tzinfo=UTC), None)]
    assert texts_where(rows, Filter("moment", Operator.LESS, (Instant(2**63 - 1),))) == ["now"]


def test_nested_columns_can_be_null_but_not_compared() -> None:
    rows = [Row("with", None, None, None, None, ("x",)), *rows_of("without")]
    assert texts_where(rows, Filter("names", Operator.IS_NULL)) == ["without"]
    with pytest.raises(InvalidArgument, match=r"'names' is ARRAY<STRING>"):
        selected(rows, Filter("names", Operator.EQUAL, ("x",)))


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
        selected([], condition)


@pytest.mark.parametrize(
    ("ask", "complaint"),
    [
        (lambda: sorted_indices(RowColumns([], SCHEMA), SCHEMA, [Order("nothing")]), "no column 'nothing'"),
        (lambda: sorted_indices(RowColumns([], SCHEMA), SCHEMA, [Order("names")]), r"'names' is ARRAY<STRING>"),
        (lambda: totals(Aggregate(Function.MAX)), "max takes a column"),
        (lambda: totals(Aggregate(Function.MIN, "names")), r"'names' is ARRAY<STRING>"),
        (lambda: totals(Aggregate(Function.COUNT, "nothing")), "no column 'nothing'"),
        (lambda: totals(Aggregate(Function.COUNT), group_by=("real",)), "'real' is DOUBLE"),
    ],
)
def test_an_order_or_aggregate_that_does_not_fit_names_the_column(ask: Callable[[], object], complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        ask()


def totals(*aggregates: Aggregate, group_by: tuple[str, ...] = ()) -> pa.RecordBatch:
    return aggregated(RowColumns([], SCHEMA), SCHEMA, ScanRequest(aggregates=aggregates, group_by=group_by))


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
