"""Parsing of statements, and the position of a syntax error."""

from __future__ import annotations

import pytest
from sqlglot import exp

from sys_tables.offline.parsing import Argument, CallStatement, Describe, Query, Show, parse
from sys_tables.offline.translate import duckdb_sql, expression_sql, mentioned_names
from tiering.errors import StatementFailed


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("SHOW NAMESPACES", Show("NAMESPACES", (), None)),
        ("show databases in fluss", Show("NAMESPACES", ("fluss",), None)),
        ("SHOW TABLES FROM fluss.`my-db` LIKE 'a*|b'", Show("TABLES", ("fluss", "my-db"), "a*|b")),
        ("SHOW TABLES IN sys 'l*'", Show("TABLES", ("sys",), "l*")),
        ("SHOW PROCEDURES IN fluss.sys", Show("PROCEDURES", ("fluss", "sys"), None)),
        ("DESCRIBE TABLE EXTENDED sys.tables", Describe(("sys", "tables"), True)),
        ("desc fluss.demo.flights", Describe(("fluss", "demo", "flights"), False)),
        ("CALL sys.help()", CallStatement(("sys", "help"), ())),
    ],
)
def test_statements_that_are_no_queries(text: str, statement: object) -> None:
    assert parse(text) == statement


def test_arguments_of_a_call_are_expressions_with_their_names() -> None:
    statement = parse("CALL fluss.sys.x('a, (b', -1,\n  until => TIMESTAMP '2026-01-01 00:00:00', `on` => array(1, 2))")
    assert isinstance(statement, CallStatement)
    assert [argument.name for argument in statement.arguments] == [None, None, "until", "on"]
    assert [expression_sql(argument.value) for argument in statement.arguments][:2] == ["SELECT 'a, (b' AS \"a, (b\"", 'SELECT -1 AS "-1"']
    assert isinstance(statement.arguments[0], Argument)


@pytest.mark.parametrize(
    "text", ["SELECT 1", "(SELECT 1)", "WITH a AS (SELECT 1) SELECT * FROM a", "FROM a.b", "VALUES (1)", "SELECT 1 UNION SELECT 2"]
)
def test_queries(text: str) -> None:
    assert isinstance(parse(text), Query)


@pytest.mark.parametrize(
    ("text", "place", "pointer"),
    [
        ("SELECT FROM WHERE", "line 1, column 13", "            ^^^^^"),
        ("SELECT a,\n  b c d\nFROM x.y", "line 2, column 7", "      ^"),
        ("SELEC 1", "line 1, column 7", "      ^"),
        ("SELECT (1", "line 1, column 9", "        ^"),
        ("a", "line 1, column 1: this is no statement", "^"),
        ("CALL sys.help(", "line 1, column 14: a ')' is missing", "             ^"),
        ("CALL sys.help(a => )", "line 1, column 20: an argument is missing", "                   ^"),
        ("CALL\n sys.help(1 +)", "line 2, column 13: something is missing", "            ^"),
        ("CALL sys.help() now", "line 1, column 17: the statement should end here", "                ^^^"),
        ("SHOW TABLES IN", "line 1, column 13: a name is missing", "            ^^"),
        ("DESCRIBE 'x'", "line 1, column 10: a name is missing", "         ^^^"),
    ],
)
def test_what_cannot_be_parsed_is_shown_with_its_place(text: str, place: str, pointer: str) -> None:
    with pytest.raises(StatementFailed) as raised:
        parse(text)
    problem, *shown = raised.value.message.split("\n")
    assert problem.startswith(place)
    line = int(place.split()[1].rstrip(","))
    assert shown == [f"  {text.splitlines()[line - 1]}", f"  {pointer}"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("INSERT INTO a.b VALUES (1)", "INSERT cannot run offline"),
        ("set x = 1", "SET cannot run offline"),
        ("EXPLAIN SELECT 1", "EXPLAIN cannot run offline"),
        ("BEGIN SELECT 1; END", "BEGIN cannot run offline"),
        ("SHOW CREATE TABLE a.b", "SHOW CREATE is answered by Spark alone"),
        ("DESCRIBE FUNCTION abs", "offline only tables can be described"),
        ("SELECT 'a", "is never closed"),
        ("", "there is no statement"),
    ],
)
def test_what_is_for_spark_alone_says_so(text: str, complaint: str) -> None:
    with pytest.raises(StatementFailed, match=complaint):
        parse(text)


def translated(text: str) -> str:
    statement = parse(text)
    assert isinstance(statement, Query)
    return duckdb_sql(statement.tree)


def test_nulls_casts_hints_and_dates_mean_what_they_mean_in_spark() -> None:
    sql = translated("SELECT /*+ BROADCAST(t) */ CAST(a AS INT), date_format(b, 'yyyy') AS y FROM t ORDER BY a, b DESC")
    assert 'CAST("a" AS INT)' in sql, "a cast that fails is an error (ANSI)"
    assert "TRY_CAST" not in sql
    assert "STRFTIME" in sql
    assert sql.endswith('ORDER BY "a" NULLS FIRST, "b" DESC')


def test_expressions_without_a_name_are_named_as_spark_names_them() -> None:
    statement = parse("SELECT COUNT(*), MAX(a), a + 1, 'x', 7, CAST(a AS STRING), b AS c, d FROM t")
    assert isinstance(statement, Query)
    named = exp.maybe_parse(duckdb_sql(statement.tree), dialect="duckdb")
    assert [expression.alias_or_name for expression in named.expressions] == ["count(1)", "max(a)", "(a + 1)", "x", "7", "a", "c", "d"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT A, max(b) FROM s.t WHERE c > 1", {"a", "b", "c", "s", "t"}),
        ("SELECT count(*) FROM s.t", {"s", "t"}),
        ("SELECT * FROM s.t", None),
        ("SELECT a FROM s.t NATURAL JOIN s.u", None),
    ],
)
def test_names_that_a_query_may_use(text: str, names: set[str] | None) -> None:
    statement = parse(text)
    assert isinstance(statement, Query)
    assert mentioned_names(statement.tree) == names
