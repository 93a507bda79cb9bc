"""Runs drawn queries on Spark, all in one statement, and on DuckDB one by one, and compares their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from support.slt.answers import cells
from support.slt.queries import DrawnQuery, one_statement, slots
from tiering.cli.sql.engine import Engine
from tiering.errors import StatementFailed

Rows = Counter[tuple[str, ...]]


def differences(queries: Sequence[DrawnQuery], spark: Engine, duckdb: Engine) -> list[str]:
    """Returns each query whose rows differ, with the rows of each engine that the other one does not have.

    If the statement of all queries fails, Spark runs them one by one. A query that fails on both engines has no difference.
    """
    try:
        of_spark: list[Rows | str] = list(_split(spark.execute(one_statement(queries)).rows, queries))
    except StatementFailed:
        of_spark = [_rows(query, spark) for query in queries]
    compared = zip(queries, of_spark, (_rows(query, duckdb) for query in queries), strict=True)
    return [text for query, first, second in compared if (text := _difference(query, first, second)) is not None]


def _rows(query: DrawnQuery, engine: Engine) -> Rows | str:
    """Returns the rows of a query alone, or the error."""
    try:
        return next(iter(_split(engine.execute(one_statement([query])).rows, [query])))
    except StatementFailed as error:
        return error.message


def _split(rows: Sequence[Sequence[object]], queries: Sequence[DrawnQuery]) -> list[Rows]:
    """Returns the rows of each query. The columns that it does not have are NULL in all its rows."""
    answers: list[Rows] = [Counter() for _ in queries]
    for number, *values in cells(rows):
        answers[int(number)][tuple(values)] += 1
    return [
        Counter({_own(row, query, queries): count for row, count in answer.items()}) for query, answer in zip(queries, answers, strict=True)
    ]


def _own(row: Sequence[str], query: DrawnQuery, queries: Sequence[DrawnQuery]) -> tuple[str, ...]:
    """Returns the values of a query's own columns, by kind."""
    free = list(query.kinds)
    own = []
    for kind, value in zip(slots(queries), row, strict=True):
        if kind in free:
            free.remove(kind)
            own.append(value)
    return tuple(own)


def _difference(query: DrawnQuery, spark: Rows | str, duckdb: Rows | str) -> str | None:
    match spark, duckdb:
        case Counter(), Counter() if spark == duckdb:
            return None
        case str(), str():
            return None
        case Counter(), Counter():
            return f"{query.sql}\n  Spark alone has {dict(spark - duckdb)}\n  DuckDB alone has {dict(duckdb - spark)}"
        case _:
            return f"{query.sql}\n  Spark: {spark}\n  DuckDB: {duckdb}"
