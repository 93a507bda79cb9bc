"""The one list of statements that every SQL client runs, and what each has to answer.

The deployment that they are for: `demo.flights` with `ROWS` rows, all of them in the lake; `demo.planes` with `PLANES_ROWS`
rows, which is not tiered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from support.sql_examples import ANY, ExpectedError, ExpectedRows, differences

ROWS, PLANES_ROWS = 100, 10
NAMES = ("fluss.sys", "sys")
"""How the system tables are written: in full, and with `fluss` as default catalog."""
TIERED = "table round_id state tiering_epoch lake_snapshot_id splits records files bytes lag_ms_before lag_ms_after duration_ms"


@dataclass(frozen=True)
class Statement:
    """`sql` has `{sys}` where the system database is named. `shell`: the rows where the spark-sql shell prints them as Hive's did."""

    sql: str
    expected: ExpectedRows | ExpectedError
    shell: tuple[tuple[str, ...], ...] | None = None


@dataclass(frozen=True)
class Rows:
    """The output of a client: cells as text, NULL as `NULL`."""

    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]


Answer = Rows | str
"""Rows, or the text of an error."""


def rows(columns: str, *cells: tuple[str, ...], more: bool = False) -> ExpectedRows:
    return ExpectedRows(tuple(columns.split()), cells, more)


def error(*contains: str) -> ExpectedError:
    return ExpectedError(contains)


_DESCRIBED = [("database_name", "string"), ("table_name", "string"), ("status", "string")]

STATEMENTS = (
    Statement("SHOW NAMESPACES IN fluss", rows("namespace", ("demo",), ("sys",))),
    Statement(
        "SHOW TABLES IN {sys} LIKE 'lake_tiering_*'",
        rows("namespace tableName isTemporary", ("sys", "lake_tiering_status", "false")),
        shell=(("lake_tiering_status",),),
    ),
    Statement(
        "SHOW TABLES IN fluss.demo",
        rows("namespace tableName isTemporary", ("demo", "flights", "false"), ("demo", "planes", "false")),
        shell=(("flights",), ("planes",)),
    ),
    Statement(
        "DESCRIBE TABLE {sys}.lake_tiering_status",
        rows("col_name data_type comment", *((name, kind, ANY) for name, kind in _DESCRIBED), more=True),
    ),
    Statement(
        "SELECT database_name, table_name, status, lake_records, paused, last_error FROM {sys}.lake_tiering_status"
        f" WHERE database_name = 'demo' AND table_name LIKE 'fli%' AND lake_records >= {ROWS} AND last_error IS NULL",
        rows(
            "database_name table_name status lake_records paused last_error",
            ("demo", "flights", "Scheduled", str(ROWS), "false", "NULL"),
        ),
    ),
    Statement("SELECT status FROM {sys}.lake_tiering_status WHERE table_name IN ('nobody', 'nothing')", rows("status")),
    Statement(
        "SELECT table_name, lake_enabled FROM {sys}.tables WHERE database_name = 'demo' ORDER BY table_name DESC LIMIT 1",
        rows("table_name lake_enabled", ("planes", "false")),
    ),
    Statement("SELECT count(*) AS n FROM {sys}.tables WHERE NOT lake_enabled", rows("n", ("1",))),
    Statement("SELECT sum(id) AS total FROM fluss.demo.flights", rows("total", (str(sum(range(ROWS))),))),
    Statement("SELECT count(*) AS n, max(id) AS last FROM fluss.demo.planes", rows("n last", (str(PLANES_ROWS), str(PLANES_ROWS - 1)))),
    Statement(
        "CALL {sys}.tier_table('demo.flights', true, 60000)",
        rows(TIERED, ("demo.flights", ANY, "EMPTY", *[ANY] * 9)),
    ),
    Statement(
        "CALL {sys}.tier_table(wait => false, table => 'fluss.demo.flights')",
        rows(TIERED, ("demo.flights", ANY, "EMPTY", *[ANY] * 9)),
    ),
    Statement(
        "CALL {sys}.wait_for_tiering('demo.flights', offsets => map('0', 1, '1', 1L), timeout_ms => 0)",
        rows("table reached lake_snapshot_id waited_ms", ("demo.flights", "true", ANY, ANY)),
    ),
    Statement(
        f"CALL {{sys}}.wait_for_tiering('demo.flights', NULL, map('0', {ROWS * 10**9}), 0)",
        rows("table reached lake_snapshot_id waited_ms", ("demo.flights", "false", ANY, ANY)),
    ),
    Statement(
        "SELECT state, aggregate(map_values(offsets), 0L, (total, next) -> total + next) AS reached FROM {sys}.lake_commits "
        "WHERE table_name = 'flights'",
        rows("state reached", ("ACKED", str(ROWS))),
    ),
    Statement(
        "CALL {sys}.help('help')",
        rows(
            "procedure parameter type required default comment",
            ("help", *["NULL"] * 4, ANY),
            ("help", "procedure", "STRING", "false", "NULL", ANY),
        ),
    ),
    Statement(
        "SELECT s.table_name, s.lake_records, count(*) AS found, max(f.id) AS last"
        " FROM {sys}.lake_tiering_status s JOIN lake.demo.flights f ON s.table_name = 'flights' GROUP BY s.table_name, s.lake_records",
        rows("table_name lake_records found last", ("flights", str(ROWS), str(ROWS), str(ROWS - 1))),
    ),
    Statement("SELECT count(*) AS found, max(id) AS last FROM fluss.demo.flights", rows("found last", (str(ROWS), str(ROWS - 1)))),
    Statement("SELECT * FROM {sys}.nope", error("there is no system table fluss.sys.nope. Those of sys are:", "lake_tiering_status")),
    Statement("SELECT nope FROM {sys}.tables", error("nope", "UNRESOLVED_COLUMN")),
    Statement("CALL {sys}.nope()", error("there is no procedure fluss.sys.nope", "tier_table")),
    Statement("CALL {sys}.tier_table('demo.fligths')", error("[UnknownTable] there is no table demo.fligths", "Hint: ", "flights")),
    Statement("CALL {sys}.tier_table(table => 'demo.flights', timeout_ms => -1)", error("timeout_ms")),
    Statement("CALL {sys}.tier_table()", error("table")),
    Statement("CALL {sys}.wait_for_tiering('demo.flights', offsets => map('9', 1))", error("demo.flights has no bucket '9'", "Hint: ")),
    Statement("CALL {sys}.wait_for_tiering('demo.flights', offsets => map('0', 'all'))", error("offsets", "MAP<STRING, BIGINT>")),
    Statement("CALL {sys}.wait_for_tiering('demo.flights', offsets => map('0', CAST(NULL AS BIGINT)))", error("offsets", "NULL")),
    Statement("INSERT INTO {sys}.tables SELECT * FROM {sys}.tables", error("system tables are read-only")),
    Statement("DROP TABLE {sys}.tables", error("cannot drop fluss.sys.tables: system tables are read-only")),
    Statement("SELECT 'still there' AS answer", rows("answer", ("still there",))),
)

SQL = tuple(statement.sql.format(sys=name) for name in NAMES for statement in STATEMENTS)
"""The whole list, once for each way to write the system database."""


def problems(answers: Sequence[Answer], shell: bool = False) -> list[str]:
    """Returns the unexpected answers to `SQL`, one line each."""
    statements = STATEMENTS * len(NAMES)
    assert len(answers) == len(statements), f"{len(answers)} answers to {len(statements)} statements"
    return [
        f"{sql}: {problem}"
        for sql, statement, answer in zip(SQL, statements, answers, strict=True)
        for problem in _problems(statement, answer, shell)
    ]


def _problems(statement: Statement, answer: Answer, shell: bool) -> list[str]:
    expected = statement.expected
    if isinstance(expected, ExpectedError):
        if not isinstance(answer, str):
            return [f"no error, but {answer}"]
        return [f"the error lacks {text!r}: {answer}" for text in expected.contains if text not in answer]
    if isinstance(answer, str):
        return [f"an error: {answer}"]
    if shell and statement.shell is not None:
        return [] if answer.cells == statement.shell else [f"the shell prints {answer.cells}, not {statement.shell}"]
    return differences(expected, answer.columns, answer.cells)
