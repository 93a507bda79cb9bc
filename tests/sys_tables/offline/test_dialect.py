"""Expressions for which Spark and DuckDB have different answers: the result is Spark's, as its documentation says."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import duckdb
import pytest

from sys_tables.offline.parsing import Query, parse
from sys_tables.offline.translate import duckdb_sql
from tiering.errors import StatementFailed

NUMBERS = "FROM VALUES (1, 1.7D), (2, -1.7D), (3, CAST(NULL AS DOUBLE)), (4, 0.5D) AS t(a, x)"


def answer(sql: str) -> list[object]:
    """The first column."""
    statement = parse(sql)
    assert isinstance(statement, Query)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'").fetchall()
        return [row[0] for row in connection.execute(duckdb_sql(statement.tree)).fetchall()]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("CAST(1.7 AS INT)", 1),
        ("CAST(-1.7D AS BIGINT)", -1),
        ("CAST('12' AS BIGINT)", 12),
        ("CAST(true AS INT)", 1),
        ("CAST(9223372036854775807 AS BIGINT)", 2**63 - 1),
        ("TRY_CAST('x' AS INT)", None),
        ("CAST(TIMESTAMP '2026-01-01 00:00:00' AS STRING)", "2026-01-01 00:00:00"),
        ("CAST(7 AS STRING)", "7"),
        ("CAST(NULL AS STRING)", None),
        ("concat('a', NULL)", None),
        ("substring('abc', 0, 2)", "ab"),
        ("'a_b' LIKE 'a\\\\_b'", True),
        ("'axb' LIKE 'a\\\\_b'", False),
        ("'AxB' ILIKE 'a_b'", True),
        ("date_add(DATE '2026-01-01', 3)", date(2026, 1, 4)),
        ("date_sub(DATE '2026-01-05', 1)", date(2026, 1, 4)),
        ("dayofweek(DATE '2026-01-04')", 1),
        ("weekday(DATE '2026-01-05')", 0),
        ("unix_timestamp(TIMESTAMP '1970-01-02 00:00:00')", 86_400),
        ("unix_timestamp('1970-01-02 00:00:00')", 86_400),
        ("datediff(DATE '2026-01-05', DATE '2026-01-01')", 4),
        ("TIMESTAMP '2026-01-02 00:00:00' - INTERVAL 1 HOUR", datetime(2026, 1, 1, 23, tzinfo=UTC)),
        ("array(1, 2)[0]", 1),
        ("element_at(array(1, 2), 1)", 1),
        ("map('a', 1)['a']", 1),
        ("size(array())", 0),
        ("isnull(NULL)", True),
        ("'it''s' || \"a\"\"b\"", "it'sa\"b"),
        ("'it''s' LIKE '%''%'", True),
        ("isnan(CAST(NULL AS DOUBLE))", False),
        ("trunc(DATE '2026-08-05', 'MM')", date(2026, 8, 1)),
        ("trunc(DATE '2026-08-05', 'QUARTER')", date(2026, 7, 1)),
        ("trunc(DATE '2026-08-05', 'DD')", None),
        ("date_trunc('MM', TIMESTAMP '2026-08-05 01:00:00')", datetime(2026, 8, 1, tzinfo=UTC)),
        ("date_trunc('day', DATE '2026-08-05')", datetime(2026, 8, 5, tzinfo=UTC)),
        ("left('ab', -1)", ""),
        ("right('ab', -1)", ""),
        ("left('ab', CAST(NULL AS INT))", None),
        ("left('abc', 2)", "ab"),
        ("substring('abc', 2, -1)", ""),
        ("substring('abc', -3, 2)", "ab"),
        ("dayname(DATE '2026-01-02')", "Fri"),
        ("monthname(DATE '2026-01-02')", "Jan"),
        ("extract(DOW FROM DATE '2026-01-04')", 1),
        ("date_part('dow', DATE '2026-01-04')", 1),
        ("extract(YEAR FROM DATE '2026-01-04')", 2026),
        ("date_format(TIMESTAMP '2026-01-02 03:04:05.6', 'HH:mm:ss.SSS')", "03:04:05.600"),
        ("TRY_CAST('1.5' AS INT)", None),
        ("TRY_CAST('1e3' AS BIGINT)", None),
        ("isnotnull(NULL)", False),
        ("5 / 2", 2.5),
        ("-7 DIV 2", -3),
        ("-7 % 3", -1),
        ("round(2.5)", Decimal(3)),
        ("NULL <=> NULL", True),
    ],
)
def test_an_expression_means_what_it_means_in_spark(expression: str, value: object) -> None:
    assert answer(f"SELECT {expression}") == [value]


@pytest.mark.parametrize(
    ("aggregate", "value"),
    [
        ("percentile(a, 0.5)", 2.5),
        ("count_if(x > 5)", 0),
        ("any(a > 3)", True),
        ("some(a > 4)", False),
        ("every(a > 1)", False),
        ("collect_list(x)", [1.7, -1.7, 0.5]),
        ("sum(CAST(x AS INT))", 0),
        ("count(*)", 4),
    ],
)
def test_an_aggregate_means_what_it_means_in_spark(aggregate: str, value: object) -> None:
    assert answer(f"SELECT {aggregate} {NUMBERS}") == [value]


@pytest.mark.parametrize(
    ("aggregate", "value"), [("count_if(x > 5)", 0), ("collect_list(x)", []), ("collect_set(x)", []), ("sum(a)", None)]
)
def test_aggregates_of_no_rows_are_those_of_spark(aggregate: str, value: object) -> None:
    assert answer(f"SELECT {aggregate} {NUMBERS} WHERE a > 9") == [value]


def test_windows_keep_their_frames() -> None:
    assert answer(f"SELECT count_if(x > 0) OVER (ORDER BY a ROWS UNBOUNDED PRECEDING) AS n {NUMBERS} ORDER BY a") == [1, 1, 1, 2]


def test_a_window_is_partitioned_by_a_cast() -> None:
    assert answer(f"SELECT count(*) OVER (PARTITION BY CAST(x AS INT)) {NUMBERS} ORDER BY a") == [1, 1, 1, 1]


def test_what_is_nested_is_rewritten_too() -> None:
    assert answer(f"SELECT CAST(percentile(CAST(x AS INT), 0.5) AS STRING) {NUMBERS}") == ["0.0"]


def test_nulls_come_first_unless_the_order_descends() -> None:
    assert answer(f"SELECT x {NUMBERS} ORDER BY x") == [None, -1.7, 0.5, 1.7]
    assert answer(f"SELECT x {NUMBERS} ORDER BY x DESC") == [1.7, 0.5, -1.7, None]


@pytest.mark.parametrize("text", ["1.5", "1e3"])
def test_a_text_with_a_fraction_cannot_be_cast_to_an_integer(text: str) -> None:
    with pytest.raises(duckdb.ConversionException, match=f"not an integer: {text}"):
        answer(f"SELECT CAST('{text}' AS INT)")


@pytest.mark.parametrize("expression", ["current_database()", "hash(1)", "typeof(1)", "version()", "xxhash64(1)"])
def test_functions_with_another_meaning_are_refused(expression: str) -> None:
    with pytest.raises(StatementFailed, match="another result in DuckDB"):
        answer(f"SELECT {expression}")
