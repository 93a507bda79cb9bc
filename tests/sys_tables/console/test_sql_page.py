"""The SQL page: what it runs and refuses, its limits, who sees which rows, and what one user cannot do to others."""

from __future__ import annotations

import asyncio
import html
import io
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import duckdb
import pytest
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from support.repository import ROOT
from support.services.guarded_service import GuardedService
from support.worlds.memory_coordinator import NOON
from sys_tables.catalog_client import SystemCatalog
from sys_tables.console.signing_in import Session
from sys_tables.console.sql.child import ConsoleRows, answered, refused_functions
from sys_tables.console.sql.examples import examples
from sys_tables.console.sql.line_chart import MAX_LINES, line_chart
from sys_tables.console.sql.page import MAX_BARS, SqlPage, bars
from sys_tables.console.sql.runner import MAX_ROWS, SqlAnswer, StatementRunner
from sys_tables.console.sql.statements import MAX_CHARACTERS, checked
from sys_tables.registry import default_registry
from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from tiering.access.client_access import ClientAccess
from tiering.errors import LakewardError, StatementFailed

Browser = Callable[[str], TestClient]
Access = Callable[[str], ClientAccess]


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.fixture
def runner(service: GuardedService, access: Access) -> Iterator[StatementRunner]:
    """Runs statements as Olga, who may see everything."""
    with SystemCatalog(service.running.uri, access=access("olga")) as catalog:
        yield StatementRunner(catalog, default_registry())


class NoService:
    """A service that no statement may reach."""

    def stream(self, request: Any) -> bytes:
        raise AssertionError(request)


REFUSED = [
    "CALL sys.pause_tiering('hr.people')",
    "INSERT INTO sys.options VALUES (1)",
    "UPDATE sys.options SET value = 1",
    "DELETE FROM sys.options",
    "DROP TABLE sys.options",
    "CREATE TABLE t AS SELECT 1",
    "ALTER TABLE sys.options ADD COLUMN x INT",
    "TRUNCATE TABLE sys.options",
    "MERGE INTO sys.options USING x ON true WHEN MATCHED THEN DELETE",
    "COPY sys.options TO '/tmp/stolen.csv'",
    "COPY (SELECT 1) TO '/tmp/stolen.csv'",
    "EXPORT DATABASE '/tmp/stolen'",
    "IMPORT DATABASE '/tmp/stolen'",
    "ATTACH '/tmp/stolen.db' AS other",
    "DETACH fluss",
    "USE sys",
    "SET memory_limit = '10GB'",
    "RESET memory_limit",
    "PRAGMA database_list",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CHECKPOINT",
    "VACUUM",
    "ANALYZE TABLE sys.options COMPUTE STATISTICS",
    "BEGIN TRANSACTION",
    "EXECUTE IMMEDIATE 'SELECT 1'",
    "PREPARE p AS SELECT 1",
    "EXPLAIN SELECT 1",
    "GRANT SELECT ON sys.options TO ana",
    "REFRESH TABLE sys.options",
    "ADD JAR '/tmp/x.jar'",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE sys.options",
    "'SELECT 1'",
    "",
    "SELECT * FROM hr.people",
    "SELECT * FROM fluss.hr.people",
    "SELECT * FROM lake.hr.people",
    "SELECT * FROM fluss.hr.`people$lake`",
    "SELECT * FROM sys.options, hr.people",
    "SELECT * FROM sys.options WHERE EXISTS (SELECT 1 FROM hr.people)",
    "WITH sys AS (SELECT 1) SELECT * FROM other.sys",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM main.sqlite_master",
    "DESCRIBE hr.people",
    "SHOW TABLES IN hr",
    "SHOW CREATE TABLE sys.options",
]
"""Statements that are refused before any engine sees them, or by its parser."""


@pytest.mark.parametrize("statement", [statement for statement in REFUSED if statement != "SHOW TABLES IN hr"])
def test_nothing_but_reads_of_sys_is_taken(statement: str) -> None:
    with pytest.raises(StatementFailed):
        checked(statement)


@pytest.mark.parametrize("word", ["COPY", "ATTACH", "PRAGMA", "INSTALL", "CALL", "INSERT", "SET", "EXPORT", "CHECKPOINT"])
def test_a_refused_statement_is_named(word: str) -> None:
    with pytest.raises(StatementFailed, match=rf"^{word} is refused"):
        checked(f"{word} x")


FUNCTIONS = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM read_parquet('/etc/passwd')",
    "SELECT * FROM read_json('/etc/passwd')",
    "SELECT * FROM sys.options WHERE value IN (SELECT content FROM read_text('/etc/passwd'))",
    "SELECT (SELECT content FROM read_text('/etc/passwd'))",
    "WITH x AS (SELECT * FROM read_text('/etc/passwd')) SELECT * FROM x",
    "SELECT 1 UNION ALL SELECT content FROM read_text('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('options')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM pragma_database_list()",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('/etc/passwd')",
    "SELECT * FROM sqlite_scan('/tmp/x', 'y')",
    "SELECT getenv('HOME')",
    "SELECT current_setting('temp_directory')",
    "SELECT getvariable('x')",
    "SELECT write_log('x')",
    "SELECT sleep_ms(20000)",
    "SELECT pg_sleep(20)",
    "SELECT setseed(0.5)",
    "SELECT nextval('s')",
    "SELECT current_query()",
    "SELECT version()",
    "SELECT json_serialize_sql('SELECT 1')",
    "SELECT CURRENT_SETTING('temp_directory')",
    "SELECT reflect('java.lang.System', 'getenv', 'HOME')",
    "SELECT java_method('java.lang.System', 'exit', 1)",
    "SELECT input_file_name()",
]


@pytest.mark.parametrize("statement", FUNCTIONS)
def test_no_function_reads_files_settings_or_the_environment(statement: str) -> None:
    with pytest.raises(StatementFailed):
        answered(statement, ConsoleRows(io.BytesIO(), io.BytesIO()), 10)


def test_every_function_of_the_engine_with_effects_is_refused() -> None:
    with duckdb.connect() as connection:
        volatile = connection.execute("SELECT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE'").fetchall()
    left = {name for (name,) in volatile} - refused_functions()
    assert left == {"random", "uuid", "uuidv4", "uuidv7", "gen_random_uuid", "error"}
    assert {"now", "count", "upper", "current_date", "current_timestamp"} & refused_functions() == set()


def test_the_rows_are_those_of_sql_as_the_caller(service: GuardedService, signed_in: Browser) -> None:
    address = "/sql?" + urlencode({"statement": "SELECT table_name, freshness_ms FROM fluss.sys.lake_tiering_status ORDER BY 1"})
    olga, ana = (text_of(signed_in(user).get(address).text.partition('id="answer"')[2]) for user in ("olga", "ana"))
    assert ("2 rows" in olga, "layoffs" in olga, "people 180000" in olga) == (True, True, True)
    assert ("1 row " in ana, "layoffs" in ana, "people 180000" in ana) == (True, False, True)
    refused = signed_in("ana").get("/sql?" + urlencode({"statement": "SELECT count(*) FROM sys.audit"}))
    assert (refused.status_code, "ADMIN" in refused.text) == (400, True)


def test_joins_null_and_nested_values_are_shown(runner: StatementRunner) -> None:
    answer = runner.run(
        "SELECT s.table_name, s.last_error, t.bucket_keys, s.observed_time FROM sys.lake_tiering_status s"
        " JOIN sys.tables t ON s.table_name = t.table_name WHERE s.last_error IS NULL AND t.table_name = 'people'"
    )
    [[name, error, keys, moment]] = answer.rows
    assert (name, error, keys, moment.utcoffset().total_seconds()) == ("people", None, "[]", 0)


def test_show_and_describe_list_sys_alone(runner: StatementRunner) -> None:
    assert [row[1] for row in runner.run("SHOW TABLES IN sys").rows] == [table.name for table in default_registry().tables]
    assert runner.run("SHOW NAMESPACES").rows == [["sys"]]
    assert "status" in [row[0] for row in runner.run("DESCRIBE sys.lake_tiering_status").rows]
    with pytest.raises(StatementFailed):
        runner.run("SHOW TABLES IN hr")


def test_a_name_without_a_database_is_a_table_of_sys(runner: StatementRunner) -> None:
    assert runner.run("SHOW TABLES").rows == runner.run("SHOW TABLES IN sys").rows
    assert runner.run("DESCRIBE options").rows == runner.run("DESCRIBE sys.options").rows
    answer = runner.run("WITH some AS (SELECT * FROM lake_tiering_status) SELECT table_name FROM some")
    assert answer.rows == runner.run("SELECT table_name FROM sys.lake_tiering_status").rows != []


OTHER_NAMES = [
    "people",
    "duckdb_secrets",
    "sqlite_master",
    "pg_tables",
    "`/etc/passwd`",
    "`/etc/passwd.csv`",
    '"https://example.org/x.csv"',
]


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_name_without_a_database_is_nothing_else(runner: StatementRunner, name: str) -> None:
    within = f"SELECT * FROM {name} WHERE EXISTS (WITH {name} AS (SELECT 1) SELECT 1)"
    for statement in (f"SELECT * FROM {name}", f"DESCRIBE {name}", within):
        with pytest.raises(LakewardError):
            runner.run(statement)


def test_a_name_of_a_with_is_compared_as_the_engine_compares_it(runner: StatementRunner) -> None:
    kelvin = "\N{KELVIN SIGN}"
    assert kelvin.lower() == "k"
    with pytest.raises(LakewardError, match=r"there is no system table sys\.duckdb_tables"):
        runner.run(f"WITH `duc{kelvin}db_tables` AS (SELECT 1) SELECT * FROM duckdb_tables")
    assert runner.run("WITH `Some` AS (SELECT 1 AS x) SELECT * FROM sOME").rows == [[1]]


def test_only_the_needed_rows_and_columns_are_read() -> None:
    requests: list[pb.ReadTableRequest] = []

    class Noting:
        def stream(self, request: pb.ReadTableRequest) -> bytes:
            requests.append(request)
            raise StatementFailed("seen")

    with pytest.raises(StatementFailed, match="seen"):
        StatementRunner(Noting(), default_registry()).run("SELECT message FROM sys.tiering_events WHERE level = 'ERROR' LIMIT 7")
    [request] = requests
    assert (sorted(request.columns), request.limit, request.filters[0].column) == (["level", "message"], 7, "level")


@pytest.mark.parametrize("namespace", ["hr", ""])
def test_the_process_of_a_statement_may_ask_for_system_tables_alone(namespace: str) -> None:
    runner = StatementRunner(NoService(), default_registry())
    with pytest.raises(LakewardError):
        runner._rows(pb.ReadTableRequest(namespace=namespace, name="people").SerializeToString())
    with pytest.raises(LakewardError):
        runner._rows(pb.ReadTableRequest(namespace="sys", name="people").SerializeToString())


def test_rows_are_cut_with_a_word_about_it(signed_in: Browser) -> None:
    answer = StatementRunner(NoService(), default_registry()).run("SELECT * FROM range(1000000)")
    assert (len(answer.rows), answer.has_more) == (MAX_ROWS, True)
    long = StatementRunner(NoService(), default_registry()).run("SELECT repeat('x', 1000000) AS x")
    assert (len(long.rows), len(long.rows[0][0]) < 3_000) == (1, True)
    page = signed_in("olga").get("/sql?" + urlencode({"statement": "SELECT * FROM range(1000)"}))
    assert "500 rows, and further ones" in text_of(page.text)


def test_a_statement_ends_after_its_time_and_with_its_memory() -> None:
    endless = StatementRunner(NoService(), default_registry(), seconds=0.5)
    with pytest.raises(StatementFailed, match=r"ended after 0\.5 s"):
        endless.run("SELECT count(*) FROM range(10000000) a, range(10000000) b")
    with pytest.raises(StatementFailed, match="more memory"):
        StatementRunner(NoService(), default_registry(), seconds=60).run("SELECT list_sum(range(300000000))")


def test_nothing_that_a_killed_process_spilled_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spilling = StatementRunner(NoService(), default_registry(), seconds=3)
    with pytest.raises(StatementFailed, match="ended after 3 s"):
        spilling.run("SELECT md5(CAST(a.range AS VARCHAR)) AS x, b.range FROM range(20000) a, range(2000) b ORDER BY x")
    assert list(tmp_path.iterdir()) == []


def test_a_statement_that_is_too_long_is_refused_without_a_process() -> None:
    with pytest.raises(StatementFailed, match="characters"):
        StatementRunner(NoService(), default_registry()).run("SELECT " + "1 + " * MAX_CHARACTERS + "1")


class Blocking:
    """A runner whose statements end when the test says so."""

    def __init__(self) -> None:
        self.started, self.end = threading.Semaphore(0), threading.Event()

    def run(self, statement: str) -> SqlAnswer:
        self.started.release()
        self.end.wait(30)
        return SqlAnswer(["x"], [], False)


def test_a_session_runs_one_statement_at_a_time_and_others_do_not_wait_for_it() -> None:
    runner = Blocking()
    page = SqlPage(None, runner)  # type: ignore[arg-type]
    ana, olga = Session("ana", "", b""), Session("olga", "", b"")

    async def scenario() -> None:
        first = asyncio.create_task(page._answer(ana, "SELECT 1"))
        await asyncio.to_thread(runner.started.acquire)
        with pytest.raises(HTTPException) as refused:
            await page._answer(ana, "SELECT 1")
        assert refused.value.status_code == 429
        second = asyncio.create_task(page._answer(olga, "SELECT 1"))
        await asyncio.to_thread(runner.started.acquire)
        runner.end.set()
        await asyncio.gather(first, second)
        await page._answer(ana, "SELECT 1")

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_other_pages_answer_while_a_statement_runs(signed_in: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Blocking()
    monkeypatch.setattr(StatementRunner, "run", lambda self, statement: runner.run(statement))
    browser = signed_in("olga")
    with browser:
        busy = threading.Thread(target=lambda: browser.get("/sql?statement=SELECT+1"), daemon=True)
        busy.start()
        runner.started.acquire(timeout=30)
        started = time.monotonic()
        assert browser.get("/options").status_code == 200
        assert (time.monotonic() - started < 20, busy.is_alive()) == (True, True)
        runner.end.set()
        busy.join(30)


def test_the_examples_are_those_of_the_folder_that_the_page_can_run(signed_in: Browser) -> None:
    titles = [example.title for example in examples()]
    assert len(titles) > 30
    assert {"Why a table was late", "The statement that helps each table"} <= set(titles)
    assert not any(example.statement.startswith("CALL") for example in examples())
    files = {
        line.removeprefix("-- Title: ") for file in (ROOT / "sql_examples").glob("*.sql") for line in file.read_text().splitlines()[:1]
    }
    assert set(titles) < files
    page = signed_in("nina").get("/sql").text
    links = re.findall(r'<a href="(http://127\.0\.0\.1:7717/sql\?statement=[^"]+)">Why a table was late</a>', page)
    assert len(links) == 1
    assert "missed_by_ms IS NOT NULL" in html.unescape(signed_in("nina").get(html.unescape(links[0])).text)


def test_a_statement_is_text_on_the_page_and_its_link_has_no_secret(signed_in: Browser) -> None:
    statement = "SELECT '</textarea><script>alert(1)</script>' AS x"
    page = signed_in("olga").get("/sql?" + urlencode({"statement": statement}))
    assert ("<script>alert" in page.text, "&lt;script&gt;alert(1)" in page.text) == (False, True)
    [link] = re.findall(r'<a href="([^"]+)">Link to this statement', page.text)
    assert set(re.findall(r"[?;&](\w+)=", html.unescape(link))) == {"statement", "as"}


def day(number: int) -> str:
    return f"2026-11-{number:02}"


def test_numbers_over_time_are_lines() -> None:
    rows = [[NOON + timedelta(minutes=1), 2, 5], [NOON, 1, None], [None, 7, 7]]
    chart = line_chart(SqlAnswer(["at", "plan_ms", "read_ms"], rows, False))
    assert chart is not None
    assert [(line.name, line.values) for line in chart.lines] == [("plan_ms", [1, 2]), ("read_ms", [None, 5])]
    assert (chart.at, chart.unit, chart.joins_gaps) == ([NOON, NOON + timedelta(minutes=1)], "ms", False)
    assert chart.label == "2 rows over time: plan_ms; read_ms. 1 rows without a time are left out"


def test_a_chart_over_all_years_is_drawn() -> None:
    chart = line_chart(SqlAnswer(["at", "n"], [[datetime(1, 1, 1, tzinfo=UTC), 0], [datetime(9999, 12, 31, tzinfo=UTC), 2]], False))
    assert chart is not None
    assert chart.points(chart.lines[0]) == ["0.0,160.0 640.0,0.0"]


def test_each_value_of_a_text_column_is_a_line_and_ids_are_none() -> None:
    rows = [[day(number), state, f"round-{number}-{state}", number] for number in (1, 2) for state in ("FAILED", "SUCCEEDED")]
    chart = line_chart(SqlAnswer(["day", "state", "round_id", "rounds"], rows, False))
    assert chart is not None
    assert [(line.name, line.values) for line in chart.lines] == [("FAILED", [1, None, 2, None]), ("SUCCEEDED", [None, 1, None, 2])]
    assert (chart.at[0], chart.joins_gaps) == (datetime(2026, 11, 1, tzinfo=UTC), True)
    many = line_chart(SqlAnswer(["day", "n", "v"], [[day(number), f"{name}", 1] for number in (1, 2) for name in range(9)], False))
    assert many is not None
    assert (len(many.lines), many.label.endswith(". 3 further lines are left out")) == (MAX_LINES, True)


@pytest.mark.parametrize(
    "rows", [[["a", 1], ["b", 2]], [[NOON, 1], [NOON, 2]], [[NOON, "x"], [NOON + timedelta(1), "y"]], [["2026-11-99", 1], [day(1), 1]], []]
)
def test_an_answer_without_numbers_over_time_has_no_lines(rows: list[list[Any]]) -> None:
    assert line_chart(SqlAnswer(["a", "b"], rows, False)) is None


def test_the_page_draws_lines_without_scripts_and_has_their_rows(signed_in: Browser) -> None:
    statement = "SELECT timestamp '2026-11-01 00:00:00' + INTERVAL 1 DAY * n AS at, '<b>' AS name, n AS `values` FROM range(3) AS t(n)"
    page = signed_in("olga").get("/sql?" + urlencode({"statement": statement, "as": "chart"})).text
    assert page.count('<polyline class="series-1" points="') == 1, text_of(page)
    assert ("3 rows over time: &lt;b&gt;." in page, "<b>" in page) == (True, False)
    assert '<td class="number">2</td>' in page


def test_a_number_for_each_row_is_a_chart() -> None:
    answer = SqlAnswer(["status", "none", "tables"], [["Failed", None, 1], ["Scheduled", None, 4]], False)
    assert [(bar.label, bar.value, bar.share) for bar in bars(answer)] == [("Failed", 1, 25), ("Scheduled", 4, 100)]
    assert bars(SqlAnswer(["a"], [["x"]], False)) == ()
    assert bars(SqlAnswer(["a"], [], False)) == ()
    assert bars(SqlAnswer(["a", "b"], [*([["x", None]] * MAX_BARS), ["y", 1]], False)) == []
