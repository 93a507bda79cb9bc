"""`lakeward sql`: statements from everywhere, results in three forms, a prompt. Spark is real where it matters."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import types

from support.running.cluster_of_processes import Deployment
from support.running.commands import Lakeward
from support.running.terminals import Terminal
from tiering.cli.sql.engine import Result
from tiering.cli.sql.prompt import FIRST, NEXT, candidate, converse, line_editing
from tiering.cli.sql.session import SqlSession
from tiering.cli.sql.spark_engine import converter, failure, missing_lake_hint
from tiering.cli.sql.statements import split
from tiering.cli.terminal.output import OutputFormat
from tiering.errors import StatementFailed

REPORT = """
-- what a shop's report may ask
SELECT table_name, bucket_count FROM sys.tables WHERE database_name = 'sales';
SELECT TIMESTAMP '2026-01-02 03:04:05.5' AS at, map('k', array(TIMESTAMP '2026-01-01 00:00:00')) AS nested, 'Åre 北京' AS city,
       1 AS city, CAST(NULL AS STRING) AS nothing, X'00ff' AS raw;
SELECT DATE '+10000-01-01' AS day, array(TIMESTAMP '+10000-01-01 02:03:04') AS times, 1 AS day;
SET spark.sql.session.timeZone = UTC;
CALL sys.tier_table('sales.nope');
SELECT 'never reached';
"""


@dataclass
class Parrot:
    """An engine that says what it was told; `fail` and `hang` do so."""

    heard: list[str] = field(default_factory=list)

    def execute(self, statement: str) -> Result:
        self.heard.append(statement)
        if "fail" in statement:
            raise StatementFailed(f"cannot {statement}", hint="Do not.")
        if "hang" in statement:
            raise KeyboardInterrupt
        return Result((), ()) if statement.startswith("SET") else Result(("said", "said"), [[statement, None]])

    def close(self) -> None:
        """Nothing to end."""


def lines(*typed: str) -> Iterator[str]:
    yield from typed


def talk(*typed: str) -> Parrot:
    """A conversation that ends with Ctrl-D."""
    parrot, remaining = Parrot(), lines(*typed)

    def read_line(_: str) -> str:
        try:
            return next(remaining)
        except StopIteration:
            raise EOFError from None

    converse(SqlSession(parrot, OutputFormat.TABLE, timed=True), read_line)
    return parrot


def test_a_statement_may_take_many_lines_and_a_line_many_statements() -> None:
    assert talk("SELECT", "'a;", "b'", "; SELECT 2; SELECT", "3;", "unfinished").heard == ["SELECT\n'a;\nb'", "SELECT 2", "SELECT\n3"]


def test_a_failure_is_told_and_the_next_statement_comes(capsys: pytest.CaptureFixture[str]) -> None:
    parrot = talk("fail \x1b; dropped;", "SELECT 1;", "exit", "never")
    assert parrot.heard == ["fail \x1b", "SELECT 1"]
    printed = capsys.readouterr()
    assert printed.err == "cannot fail \\x1b\n  Do not.\n1 row in 0.00 s\n"
    assert "SELECT 1" in printed.out


def test_ctrl_c_drops_what_is_typed_or_the_wait_and_never_the_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    assert talk("hang;", "SELECT 1;").heard == ["hang", "SELECT 1"]
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["exit", "quit;", "\\q", "EXIT"])
def test_leaving_takes_one_word(word: str) -> None:
    assert talk(word, "SELECT 1;").heard == []


def test_names_are_completed_in_any_case() -> None:
    names = ("SELECT", "sys.tables", "sys.tiering")
    assert [candidate(names, "SYS.T", index) for index in range(3)] == ["sys.tables", "sys.tiering", None]


def test_the_history_outlives_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with line_editing(()):
        pass
    assert (tmp_path / "lakeward" / "sql_history").exists()


@pytest.mark.parametrize(
    ("output", "printed"),
    [
        (OutputFormat.CSV, "said,said\nSELECT 1,\n\nsaid,said\nSELECT 2,\n"),
        (OutputFormat.JSON, None),
    ],
)
def test_programs_can_tell_one_result_from_the_next(capsys: pytest.CaptureFixture[str], output: OutputFormat, printed: str | None) -> None:
    SqlSession(Parrot(), output).run_all(split("SELECT 1; SET a; SELECT 2").all, "here")
    out, err = capsys.readouterr()
    assert err == ""
    if printed is not None:
        assert out == printed
    else:
        first, end = json.JSONDecoder().raw_decode(out)
        assert first == [{"said": "SELECT 1", "said_2": None}]
        assert json.loads(out[end:]) == [{"said": "SELECT 2", "said_2": None}]


def test_of_several_statements_the_one_that_fails_is_named_and_ends_it() -> None:
    parrot = Parrot()
    with pytest.raises(StatementFailed, match=r"report.sql, statement 2 of 3, from line 3: cannot fail") as raised:
        SqlSession(parrot, OutputFormat.CSV).run_all(split("SELECT 1;\n\nfail; SELECT 3").all, "report.sql")
    assert raised.value.hint == "Do not."
    assert parrot.heard == ["SELECT 1", "fail"]


@pytest.mark.parametrize(
    ("spark_message", "message", "hint"),
    [
        ("[UnknownTable] there is no table a.b. Hint: Look again.", "[UnknownTable] there is no table a.b.", "Look again."),
        ("[X] bad; line 1 pos 7;\n'Project ['nocol]\n+- Relation", "[X] bad; line 1 pos 7", ""),
        ("\n[P] bad (line 1)\n\n== SQL ==\nSELEC 1;\n^^^\n", "[P] bad (line 1)\n\n== SQL ==\nSELEC 1;\n^^^", ""),
        ("boom\n\nJVM stacktrace:\njava.lang.X\n\tat a.b", "boom", ""),
    ],
)
def test_what_spark_says_is_told_without_plans_and_stacks(spark_message: str, message: str, hint: str) -> None:
    error = failure(spark_message)
    assert (error.message, error.hint) == (message, hint)


@pytest.mark.parametrize(
    ("statement", "names_it"),
    [
        ("ALTER TABLE lake.sales.orders DROP COLUMN a", True),
        ("CALL `lake`.system.set_current_snapshot('sales.orders', 7)", True),
        ("SELECT x.lake.y FROM fluss.lake.t", False),
        ("SELECT lake FROM sys.tables", False),
    ],
)
def test_who_names_the_lakes_catalog_without_having_it_learns_how_to_get_it(statement: str, names_it: bool) -> None:
    hint = missing_lake_hint(statement)
    assert ("--lake" in (hint or "")) is names_it
    assert failure("[X] bad", hint).hint == (hint or "")
    assert failure("[X] bad Hint: Look again.", hint).hint == "Look again."


def test_instants_come_in_the_zone_of_the_session_wherever_they_are() -> None:
    local = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).astimezone().replace(tzinfo=None)
    row = types.Row(at=local, plain=local)
    struct = types.StructType([types.StructField("at", types.TimestampType()), types.StructField("plain", types.TimestampNTZType())])
    kind = types.MapType(types.StringType(), types.ArrayType(struct))
    converted = converter(kind, ZoneInfo("Asia/Tokyo"))({"k": [row, None]})
    assert converted["k"][0]["at"].isoformat() == "2026-01-02T12:04:05+09:00"
    assert converted["k"][0]["plain"] == local
    assert converted["k"][1] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("SELECT 1", "-f", "x.sql"), "cannot be combined"),
        (("-f", "nowhere.sql"), "nowhere.sql"),
        (("SELECT 'a",), "never closed"),
        ((" ; ",), "there is no statement"),
        (("SELECT 1", "--conf", "novalue"), "--conf"),
    ],
)
def test_wrong_usage_is_told_before_anything_starts(lakeward: Lakeward, arguments: tuple[str, ...], message: str) -> None:
    ended = lakeward("sql", *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert message in ended.err


def test_an_unreachable_service_is_reported_before_spark_is_started(lakeward: Lakeward) -> None:
    ended = lakeward("sql", "SELECT 1", "--uri", "127.0.0.1:1")
    assert ended.status == 3
    assert "127.0.0.1:1" in ended.err


def test_a_file_runs_until_a_statement_fails_with_data_and_errors_apart(stocked: Deployment, tmp_path: Path) -> None:
    report = tmp_path / "report.sql"
    report.write_text(REPORT, encoding="utf-8")
    command = [sys.executable, "-m", "tiering.cli.main", "sql", "-f", str(report), "--format", "json", "--uri", stocked.uri]
    ended = subprocess.run([*command, "--master", "local[1]"], capture_output=True, text=True, timeout=240, cwd=tmp_path, check=False)
    assert ended.returncode == 1, ended.stderr
    decoder, results, remaining = json.JSONDecoder(), [], ended.stdout
    while remaining.strip():
        result, end = decoder.raw_decode(remaining.lstrip())
        results.append(result)
        remaining = remaining.lstrip()[end:]
    assert results[0] == [{"table_name": "orders", "bucket_count": 3}]
    assert results[1] == [
        {
            "at": "2026-01-02T03:04:05.500000+00:00",
            "nested": {"k": ["2026-01-01T00:00:00+00:00"]},
            "city": "Åre 北京",
            "city_2": 1,
            "nothing": None,
            "raw": "00ff",
        }
    ]
    assert results[2] == [{"day": "+10000-01-01", "times": "[+10000-01-01 02:03:04]", "day_2": 1}]
    assert len(results) == 4  # SET shows what it set
    first, *rest_of_errors = ended.stderr.splitlines()
    assert first.startswith(f"lakeward: {report}, statement 5 of 6, from line 8: [UnknownTable]")
    assert "sales.nope" in first
    assert all(line.startswith("  ") for line in rest_of_errors)
    assert [path.name for path in tmp_path.iterdir()] == ["report.sql"]


def test_the_prompt_answers_keeps_on_after_an_error_and_leaves_on_ctrl_d(stocked: Deployment, tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    with Terminal("sql", "--uri", stocked.uri, "--master", "local[1]", env=env) as terminal:
        terminal.wait_for(FIRST, 200)
        terminal.type("SELECT table_name\n")
        terminal.wait_for(NEXT)
        terminal.type("FROM sys.tables ORDER BY 1;\n")
        terminal.wait_for("2 rows in")
        terminal.type("SELECT * FROM sys.nope;\n")
        terminal.wait_for("there is no system table fluss.sys.nope")
        terminal.type("SELECT 40 + 2 AS answer;\n")
        terminal.wait_for("1 row in")
        assert terminal.end_input() == 0
    assert "clicks" in terminal.text
    assert "42" in terminal.text
    assert "SELECT 40 + 2 AS answer;" in (tmp_path / "lakeward" / "sql_history").read_text()
