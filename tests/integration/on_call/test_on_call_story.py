"""A person on call with only a SQL prompt: twelve tables, twenty questions, and the statement that repairs each table.

The questions are those of docs/on-call.md, answered by files of sql_examples/ through a Spark with the plugin.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.repository import ROOT
from support.running.processes import wait_for
from support.running.spark_sessions import spark_session
from support.sql_examples import Example, cell_text, load_examples
from support.stories.twelve_tables import COUNT, TwelveTables, path

EXAMPLES = {example.number: example for example in load_examples(ROOT / "sql_examples")}
PAGE = ROOT / "docs" / "on-call.md"

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Question:
    """A question, the number of the example that answers it, and the rows that it must return.

    `instead`: names of the example that are replaced by those of the question. `varies`: its rows differ from run to run, such as those of
    a table that is tried again and again.
    """

    text: str
    number: int
    holds: Callable[[Rows], object]
    instead: Mapping[str, str] = field(default_factory=dict)
    varies: bool = False

    @property
    def example(self) -> Example:
        return EXAMPLES[self.number]

    @property
    def sql(self) -> str:
        sql = self.example.sql
        for old, new in self.instead.items():
            assert f"'{old}'" in sql
            sql = sql.replace(f"'{old}'", f"'{new}'")
        return sql


def by_table(rows: Rows) -> dict[str, Mapping[str, Any]]:
    return {row["table_name"]: row for row in rows}


def column(rows: Rows, name: str) -> list[Any]:
    return [row[name] for row in rows]


ME = getpass.getuser()
QUESTIONS = (
    Question(
        "Which tables are behind their promise?",
        10,
        lambda rows: (
            {name: row["paused"] for name, row in by_table(rows).items()}
            == {"archive": True, "invoices": True, "payments": False, "sensors": False, "weather": False}
        ),
    ),
    Question("What is the tiering busy with?", 7, lambda rows: {row["status"]: row["tables"] for row in rows}["Failed"] >= 4, varies=True),
    Question(
        "Which tables fail, and what helps?",
        8,
        lambda rows: (
            {name: row["error_class"] for name, row in by_table(rows).items() if name != "payments"}
            == {"archive": "TiererLost", "clicks": "BucketStopped", "returns": "LakeRolledBack", "weather": "SchemaDrift"}
        ),
        varies=True,
    ),
    Question("Which tables fail again and again?", 9, lambda rows: by_table(rows)["payments"]["consecutive_failures"] > 2, varies=True),
    Question(
        "What should I run?",
        74,
        lambda rows: (
            {name: row["next_action"] for name, row in by_table(rows).items() if name in ("archive", "invoices")}
            == {name: f"CALL fluss.sys.resume_tiering('demo.{name}')" for name in ("archive", "invoices")}
            and None not in (by_table(rows)[name]["next_action"] for name in ("returns", "weather"))
        ),
    ),
    Question(
        "Which errors are not solved yet?",
        59,
        lambda rows: (
            {(row["table_name"], row["error_class"]) for row in rows}
            >= {("archive", "TiererLost"), ("clicks", "BucketStopped"), ("returns", "LakeRolledBack"), ("weather", "SchemaDrift")}
        ),
    ),
    Question(
        "Why was orders late this morning?",
        83,
        lambda rows: (
            "it was paused for" in rows[0]["reason"]
            and f"{ME} TABLE_PAUSED: a backfill, " in rows[0]["acts"]
            and f"{ME} TABLE_RESUMED" in rows[0]["acts"]
        ),
        {"weather": "orders"},
    ),
    Question(
        "Why is payments late now?",
        83,
        lambda rows: rows[0]["reached_at"] is None and "LakeUnavailable" in rows[0]["error"],
        {"weather": "payments"},
        varies=True,
    ),
    Question(
        "Which promises were broken since yesterday?",
        88,
        lambda rows: by_table(rows)["orders"]["largest_part"] == "paused",
        varies=True,
    ),
    Question(
        "Which tables are paused, by whom and why?",
        11,
        lambda rows: (
            {(row["table_name"], row["paused_by"], row["paused_reason"]) for row in rows}
            == {("archive", ME, "until we know why its tierer dies"), ("invoices", ME, "the auditors are in")}
        ),
    ),
    Question(
        "Which tierer died, and what did it run?",
        84,
        lambda rows: [(row["tierer_id"], row["state"], row["table_name"]) for row in rows] == [("tierer-a", "LOST", "archive")],
    ),
    Question("Which tierers are in trouble?", 60, lambda rows: column(rows, "tierer_id") == ["tierer-a"]),
    Question(
        "What runs now, and how far is it?",
        12,
        lambda rows: (by_table(rows)["sensors"]["tierer_id"], by_table(rows)["sensors"]["fraction_completed"]) == ("tierer-c", 0.1),
        varies=True,
    ),
    Question(
        "Which leases expire?",
        39,
        lambda rows: [(row["lease_id"], row["buckets"], row["remaining_ms"] < 600_000) for row in rows] == [("nightly-export", 1, True)],
    ),
    Question(
        "What changed in the last hour, and who did it?",
        85,
        lambda rows: (
            {(row["event_type"], row["table"]) for row in rows if row["principal"] == ME}
            >= {("TABLE_PAUSED", "demo.orders"), ("TABLE_RESUMED", "demo.orders"), ("TABLE_PAUSED", "demo.invoices")}
        ),
    ),
    Question(
        "How far is the backlog?",
        86,
        lambda rows: (
            {name: row["records_left"] for name, row in by_table(rows).items()}.items()
            >= {"archive": 2 * COUNT, "sensors": COUNT, "clicks": 1}.items()
        ),
        varies=True,
    ),
    Question(
        "Which rows are only in the log?",
        76,
        lambda rows: (
            {name for name, row in by_table(rows).items() if row["hot"]}
            >= {"archive", "clicks", "invoices", "payments", "sensors", "weather"}
            and not by_table(rows)["flights"]["hot"]
        ),
    ),
    Question(
        "Which bucket is stopped, and at which record?",
        77,
        lambda rows: (
            [(row["table_name"], row["bucket_id"], row["stopped_at_offset"], row["error_class"]) for row in rows]
            == [("clicks", 0, 4, "BucketStopped")]
        ),
    ),
    Question(
        "Which buckets wait longest?",
        64,
        lambda rows: {row["table_name"] for row in rows} >= {"archive", "invoices", "payments", "sensors", "weather"},
    ),
    Question(
        "How far is each bucket of archive?",
        63,
        lambda rows: sum(column(rows, "lag_records")) == 2 * COUNT,
        {"flights": "archive"},
        varies=True,
    ),
    Question("Which rounds were slowest, and on what?", 87, lambda rows: len(rows) == 3, varies=True),
    Question(
        "Where is the table rides, and was it ever tiered?",
        53,
        lambda rows: column(rows, "event_type") == ["COMMIT_GRANTED"],
        {"flights": "rides"},
    ),
    Question("Which tables have no copy in the lake?", 14, lambda rows: column(rows, "table_name") == ["planes"]),
    Question(
        "Up to where did the last commit of hotels bring its lake copy?",
        55,
        lambda rows: rows[0]["state"] == "ACKED",
        {"flights": "hotels"},
    ),
)


INTRODUCTION = """# On call

This page is for the person on call when tables are late. It has the questions to ask in SQL, the example that answers each of them,
and the rows that a service with twelve tables in different kinds of trouble returned.

## Example

Ask first what to run. `next_action` is the one statement that helps, and it leaves no acknowledged row out of the lake:

```sql
SELECT table_name, status, error_class, next_action, error_hint
FROM fluss.sys.lake_tiering_status
WHERE status = 'Failed' AND NOT error_retryable OR paused
ORDER BY database_name, table_name;
```

The answer is [below](#what-should-i-run). [Errors](errors.md) has the repair for each class of error.

## Limits

- Where only a statement remains that leaves a row out, as for `clicks` below, `next_action` is NULL. The hint names the choice,
  and a person decides.
- If an example names a table, put your table in its place. Every statement runs in Spark with the plugin, and in `lakeward sql -f FILE`.
- With [grants](grants.md), you see only the tables that you may describe.
- Times, ids and durations differ in your service. Long values are cut here. A test runs all statements, follows `next_action`,
  and keeps this page current.
"""
STANDING_BUCKET = "## A bucket is stopped at a record: what to do"
"""The sections from here on are written by hand. This one has the statements and answers of one table."""
LONGEST_CELL = 160
CUT_CELLS = re.compile(r"(?<=\| )([^|]{0,40})[^|]*…")
NUMBERS = re.compile(r"(?<=\|) \d+ (?=\|)")
TIMES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?")
SPANS = re.compile(r"\d[\d.]* (ms|s|min|h)\b")
IDS = re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\d{3,}|-[0-9a-f]{12}\b|(?<=_former_)[\d_]+")


def page_of(answers: Sequence[tuple[Question, Rows]], service: TwelveTables) -> str:
    """docs/on-call.md, with nothing of this machine in it."""
    parts = [INTRODUCTION]
    for question, rows in answers:
        example = question.example
        instead = "".join(f", with `{new}` instead of `{old}`" for old, new in question.instead.items())
        parts.append(f"## {question.text}\n\n[`{example.file_name}`](../sql_examples/{example.file_name}){instead}\n\n{table_of(rows)}")
    page = "\n".join(parts)
    for text, name in ((str(service.data.root), "/data"), (socket.gethostname(), "worker-1"), (ME, "ann")):
        page = re.sub(rf"(?<![\w-]){re.escape(text)}(?![\w-])", name, page)
    return page


def table_of(rows: Rows) -> str:
    """The rows as Markdown."""
    if not rows:
        return "No rows.\n"
    cut = lambda text: text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"  # noqa: E731
    lines = [
        list(rows[0]),
        ["---"] * len(rows[0]),
        *([cut(cell_text(value)).replace("|", "\\|") for value in row.values()] for row in rows),
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def outline(page: str) -> dict[str, list[str]]:
    """By question: the file, the columns and the rows, without what differs from run to run: times, durations, ids, the order."""
    replaced = ((TIMES, "TIME"), (SPANS, "SPAN"), (IDS, "N"), (NUMBERS, " N "), (CUT_CELLS, r"\1…"))
    plain = page.splitlines()
    for pattern, replacement in replaced:
        plain = [pattern.sub(replacement, line) for line in plain]
    varying = {question.text for question in QUESTIONS if question.varies}
    sections: dict[str, list[str]] = {}
    for line in plain:
        if line.startswith("## "):
            lines = sections.setdefault(line.removeprefix("## "), [])
        elif sections and line:
            lines.append(line)
    return {text: lines[:3] if text in varying else [*lines[:3], *sorted(lines[3:])] for text, lines in sections.items()}


def keep(folder: Path, page: str) -> Path:
    file = folder / "on-call.md"
    file.write_text(page)
    return file


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwelveTables]:
    with closing(TwelveTables(tmp_path_factory.mktemp("on-call"))) as deployment:
        deployment.start()
        yield deployment


@pytest.fixture(scope="module")
def spark(service: TwelveTables, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    printed = service.lakeward("spark-conf", "--lake")
    properties = dict(line.split(maxsplit=1) for line in printed.splitlines())
    with spark_session(tmp_path_factory.mktemp("warehouse"), properties) as session:
        yield session


def ask(spark: SparkSession, sql: str) -> list[dict[str, Any]]:
    return [row.asDict() for row in spark.sql(sql).collect()]


UNHEALTHY = "SELECT * FROM fluss.sys.lake_tiering_status WHERE last_error IS NOT NULL OR paused OR lag_ms IS NULL OR lag_ms > 0"
NEXT_ACTIONS = "SELECT table_name, next_action FROM fluss.sys.lake_tiering_status WHERE next_action IS NOT NULL ORDER BY table_name"


def follow_next_actions(spark: SparkSession) -> dict[str, list[str]]:
    """Runs exactly what the column names, each statement once, until it names nothing; what was run, by table."""
    ran: dict[str, list[str]] = {}

    def named() -> list[dict[str, Any]]:
        return ask(spark, NEXT_ACTIONS)

    def untried() -> list[dict[str, Any]]:
        return [row for row in named() if row["next_action"] not in ran.get(row["table_name"], ())]

    while wait_for("what was run has helped, or something else is named", lambda: untried() or not named()) is not True:
        for row in untried():
            ran.setdefault(row["table_name"], []).append(row["next_action"])
            spark.sql(row["next_action"]).collect()
    return ran


def test_twenty_questions_are_answered_and_every_table_is_set_right(service: TwelveTables, spark: SparkSession, tmp_path: Path) -> None:
    wait_for("it is known what helps the broken lake tables", lambda: len(ask(spark, NEXT_ACTIONS)) == 4)
    answers = [(question, ask(spark, question.sql)) for question in QUESTIONS]
    for question, rows in answers:
        assert question.holds(rows), "\n".join([question.text, *map(str, rows)])
    page = page_of(answers, service)
    written, heading, walk = PAGE.read_text().partition(STANDING_BUCKET)
    assert heading
    walk = walk.partition("\n## ")[0]
    steps = re.findall(r"```sql\n([^`]*);\n```\n\n((?:\|.*\n)+)", walk)
    assert len(steps) == 5
    assert outline(written) == outline(page), f"docs/on-call.md is now to be as {keep(tmp_path, page)}"
    assert PAGE.read_text().startswith(INTRODUCTION)

    ran = follow_next_actions(spark)
    assert set(ran) == {"archive", "invoices", "returns", "weather"}
    [hint] = [row["error_hint"] for row in ask(spark, EXAMPLES[8].sql) if row["table_name"] == "clicks"]
    skip = hint[hint.index("CALL ") : hint.index(")") + 1].replace("CALL sys.", "CALL fluss.sys.")  # a choice: it leaves a record out
    assert steps[2][0] == skip.replace("'...'", "'a map with a key twice'")
    for sql, table in steps[:4]:
        assert table_of(ask(spark, sql)).replace(f"| {ME} |", "| ann |") == table
    service.mend_payments()
    spark.sql("CALL fluss.sys.fence_tierer('tierer-c', 'hangs')").collect()
    for name in ("clicks", "payments"):
        spark.sql(f"CALL fluss.sys.tier_table('demo.{name}')").collect()
    wait_for("every table is healthy", lambda: not ask(spark, UNHEALTHY))
    assert table_of(ask(spark, steps[4][0])) == steps[4][1]
    assert ask(spark, EXAMPLES[10].sql) == ask(spark, EXAMPLES[8].sql) == ask(spark, EXAMPLES[11].sql) == []
    for name, count in (("archive", 2 * COUNT), ("returns", 2 * COUNT), ("payments", 2 * COUNT), ("weather", COUNT), ("sensors", COUNT)):
        service.assert_exact(path(name), count)
