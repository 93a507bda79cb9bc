"""Usual questions about system tables need no Spark job, and every question gets Spark's own answer.

Each answer is compared with Spark's over a plain DataFrame of the same rows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from support.values.values_table import ROWS, values
from support.worlds.memory_coordinator import NOON, MemoryCoordinator, table_status
from tiering.model.status import TableStatus

Serve = Callable[..., Any]
Session = Callable[..., SparkSession]
Jobs = Callable[[Callable[[], object]], int]

ON_CALL = {
    "what fails, and why": """
        SELECT database_name, table_name, error_class, last_error, error_hint FROM {status} WHERE last_error IS NOT NULL""",
    "which tables break their promise": """
        SELECT table_name AS t, lag_ms / 1000 AS lag_s FROM {status} WHERE promise = 'broken' ORDER BY lag_s DESC, t""",
    "the ten that are furthest behind": """
        SELECT table_name, pending_records, lag_ms FROM {status} ORDER BY lag_ms DESC NULLS LAST, table_name LIMIT 10""",
    "how many tables in each state": """
        SELECT status, count(*) AS tables, max(lag_ms) AS worst FROM {status} GROUP BY status ORDER BY tables DESC, status""",
    "all about one table": """
        SELECT * FROM {status} WHERE database_name = 'd1' AND table_name = 't007'""",
    "is anything wrong": """
        SELECT count(*) AS wrong FROM {status} WHERE last_error IS NOT NULL OR consecutive_failures > 0 OR paused""",
    "when the lake was last written to": """
        SELECT max(last_tiered_time) AS latest, min(last_tiered_time) AS first, count(last_tiered_time) AS tiered FROM {status}""",
    "what runs now": """
        SELECT tierer_id, concat(database_name, '.', table_name) AS path, round(100 * fraction_completed) AS percent
        FROM {status} WHERE status = 'Tiering' ORDER BY round_started_time, path""",
    "tables that a user paused": """
        SELECT table_name, paused_by, coalesce(paused_reason, '-') AS why FROM {status} WHERE paused AND paused_until IS NULL
        ORDER BY table_name""",
    "what times out": """
        SELECT table_name, next_retry_time FROM {status}
        WHERE lower(last_error) LIKE '%timed out%' AND NOT (status IN ('Tiered', 'Scheduled')) ORDER BY 2, 1 LIMIT 20""",
}
"""The ten most usual questions on call (docs/system-tables.md lists them)."""


def statuses() -> list[TableStatus]:
    """Sixty tables in all kinds of trouble."""
    seed = random.Random(5)

    def maybe(value: Any) -> Any:
        return value if seed.random() < 0.6 else None

    def numbered_status(number: int) -> TableStatus:
        state = seed.choice(["Scheduled", "Scheduled", "Pending", "Tiering", "Failed"])
        error = maybe(seed.choice(["the request Timed out", "no such column"])) if state == "Failed" else None
        return table_status(
            f"d{number % 3}.t{number:03}",
            table_id=number,
            status=state,
            lag_ms=maybe(seed.randrange(500_000)),
            pending_records=maybe(number),
            consecutive_failures=seed.choice([0, 0, 0, 2]),
            last_error=error,
            error_class=error and "Boom",
            paused=seed.random() < 0.2,
            paused_by=maybe("ann"),
            last_tiered_time=maybe(NOON - timedelta(seconds=number)),
            next_retry_time=maybe(NOON + timedelta(seconds=number % 7)),
            round_started_time=maybe(NOON - timedelta(seconds=number % 5)),
            fraction_completed=maybe(number / 60),
        )

    return [numbered_status(number) for number in range(60)]


def alone(spark: SparkSession, table: str) -> None:
    """Returns the same rows as a plain DataFrame."""
    rows = spark.table(f"fluss.sys.{table}")
    spark.createDataFrame(rows.collect(), rows.schema).createOrReplaceTempView(f"{table}_alone")


@pytest.fixture
def server(serve: Serve) -> Any:
    return serve(MemoryCoordinator(statuses=statuses()), tables=[values])


def test_the_usual_questions_need_no_spark_job(server: Any, session: Session, jobs: Jobs) -> None:
    spark = session(server.uri)
    alone(spark, "lake_tiering_status")
    for question, sql in ON_CALL.items():
        answers: list[list[Row]] = []
        started = jobs(lambda: answers.append(spark.sql(sql.format(status="fluss.sys.lake_tiering_status")).collect()))  # noqa: B023
        expected: list[list[Row]] = []
        by_spark = jobs(lambda: expected.append(spark.sql(sql.format(status="lake_tiering_status_alone")).collect()))  # noqa: B023
        assert by_spark > 0, "the counter counts nothing"
        assert started == 0, spark.sql(f"EXPLAIN EXTENDED {sql.format(status='fluss.sys.lake_tiering_status')}").first().plan
        assert answers == expected, question
        assert answers[0], question


def test_looking_at_a_data_frame_needs_no_job_either(server: Any, session: Session, jobs: Jobs) -> None:
    frame = session(server.uri).table("fluss.sys.lake_tiering_status")

    assert jobs(lambda: frame.select("status", "table_name").sort("table_name").limit(3).collect()) == 0
    assert jobs(lambda: frame.filter("lag_ms > 5").select((frame.lag_ms + 1).alias("next")).toPandas()) == 0
    assert jobs(lambda: frame.show()) == 0
    assert jobs(frame.count) == 0
    assert jobs(lambda: frame.select("status").distinct().collect()) == 0


def test_rows_in_a_plan_go_on_into_joins_and_other_aggregates(server: Any, session: Session) -> None:
    spark = session(server.uri)
    for table in ("lake_tiering_status", "values"):
        alone(spark, table)
    for sql in (
        "SELECT a.table_name, v.text FROM {s} a JOIN {v} v ON a.table_id = v.id ORDER BY 1",
        "SELECT status, avg(lag_ms), count(DISTINCT database_name) FROM {s} GROUP BY status ORDER BY status",
        "SELECT id FROM {v} WHERE id IN (SELECT table_id FROM {s} WHERE status <> 'Failed') ORDER BY id DESC",
        "SELECT id, rank() OVER (ORDER BY real) AS r FROM {v} ORDER BY id",
        "SELECT count(*) FROM (SELECT DISTINCT status, paused FROM {s})",
        "SELECT max(n) FROM (SELECT count(*) AS n FROM {s} GROUP BY database_name)",
        "SELECT id FROM {v} UNION ALL SELECT table_id FROM {s} ORDER BY 1 LIMIT 5 OFFSET 2",
        "SELECT (SELECT max(id) FROM {v}) AS top, count(*) FROM {s} WHERE table_id > (SELECT min(id) FROM {v})",
    ):
        served = spark.sql(sql.format(s="fluss.sys.lake_tiering_status", v="fluss.sys.values")).collect()
        assert served == spark.sql(sql.format(s="lake_tiering_status_alone", v="values_alone")).collect(), sql


LEAVES = [
    "text = 'apple'", "text <> 'Apple'", "text < 'b'", "text LIKE 'ap%'", "text LIKE '%e'", "text IS NULL", "text IN ('', 'apple')",
    "small > 0", "small <= 7", "small IN (7, 8, NULL)", "big >= 10", "big = -9223372036854775808", "big IS NOT NULL", "real > 0D",
    "real = double('NaN')", "real < double('Infinity')", "real <> -0.0D", "real IN (double('NaN'), 1.5D)", "truth", "NOT truth",
    "truth IS NULL", "moment > TIMESTAMP '2026-03-01 13:00:02+01:00'", "moment <= TIMESTAMP '2026-03-01 12:00:02.000001 UTC'",
    "text <=> NULL", "small <=> 7", "small = big", "upper(text) = 'APPLE'", "small % 5 > 1", "moment > DATE '2026-03-01'",
]  # fmt: skip
COLUMNS = ["text", "small", "big", "real", "truth", "moment", "id"]


def condition(seed: random.Random, depth: int) -> str:
    if depth == 0 or seed.random() < 0.3:
        return seed.choice(LEAVES)
    shape = seed.choice(["({} AND {})", "({} OR {})", "NOT ({})"])
    return shape.format(*(condition(seed, depth - 1) for _ in range(shape.count("{}"))))


def question(seed: random.Random) -> str:
    """A statement over the rows that has one right answer, also where sort keys are equal."""
    where = f" WHERE {condition(seed, 3)}" if seed.random() < 0.9 else ""
    if seed.random() < 0.35:
        grouped = seed.sample(["text", "small", "truth", "moment"], seed.randrange(3))
        functions = [f"{seed.choice(['min', 'max', 'count'])}({seed.choice(COLUMNS)})" for _ in range(2)]
        named = ", ".join([*grouped, "count(*) AS n", *(f"{function} AS f{number}" for number, function in enumerate(functions))])
        return f"SELECT {named} FROM {{}}{where}" + (f" GROUP BY {', '.join(grouped)}" if grouped else "")
    columns = ", ".join(["id", *seed.sample(COLUMNS[:-1], seed.randrange(1, 5))])
    keys = [f"{key} {seed.choice(['ASC', 'DESC'])} NULLS {seed.choice(['FIRST', 'LAST'])}" for key in seed.sample(COLUMNS, 2)]
    order = f" ORDER BY {', '.join([*keys, 'id'])}"
    return f"SELECT {columns} FROM {{}}{where}{order}" + (f" LIMIT {seed.randrange(6)}" if seed.random() < 0.6 else "")


def answer(rows: list[Row], *, ordered: bool) -> list[str]:
    """Comparable: NaN is itself, and both zeros are one."""
    cells = [repr([0.0 if value == 0 and isinstance(value, float) else value for value in row]) for row in rows]
    return cells if ordered else sorted(cells)


@pytest.mark.in_turn("zone")
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_any_question_is_answered_as_spark_alone_would(zone: str, server: Any, session: Session) -> None:
    assert any(row.real is not None and math.isnan(row.real) for row in ROWS)
    spark, seed = session(server.uri), random.Random(zone)
    spark.conf.set("spark.sql.session.timeZone", zone)
    alone(spark, "values")
    for _ in range(25):
        sql = question(seed)
        ordered = "ORDER BY" in sql
        served = answer(spark.sql(sql.format("fluss.sys.values")).collect(), ordered=ordered)
        assert served == answer(spark.sql(sql.format("values_alone")).collect(), ordered=ordered), sql
    assert {True, False} == {bool(read.conditions) for read in server.reads}
    assert any(read.order for read in server.reads)
    assert any(read.group_by for read in server.reads)


def test_system_tables_have_names_of_any_case(server: Any, session: Session) -> None:
    spark = session(server.uri)

    sql = "SELECT STATUS, count(*) AS n FROM fluss.sys.Lake_Tiering_Status WHERE Table_Name LIKE 't00%' GROUP BY Status ORDER BY STATUS"
    assert sum(row.n for row in spark.sql(sql).collect()) == 10
