"""`lakeward sql --engine duckdb` as a user types it: on a folder without a coordinator, and beside a coordinator."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path

import pytest

from support.running.cluster_of_processes import Deployment
from support.running.commands import Lakeward
from support.running.terminals import Terminal
from support.worlds.data_folders import make_example_folder
from tiering.cli.sql.prompt import FIRST

QUERY = "SELECT table_name, status, last_tiered_time, lag_ms FROM sys.lake_tiering_status WHERE table_name = 'flights'"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_example_folder(tmp_path_factory.mktemp("folder")).root


def offline(folder: Path) -> tuple[str, ...]:
    return ("sql", "--engine", "duckdb", "--data", str(folder))


def contents(folder: Path) -> dict[str, str]:
    """Checksums of all files but those that SQLite keeps beside a database while it is read."""
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.endswith(("-shm", "-wal"))]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_results_are_printed_in_three_forms(lakeward: Lakeward, folder: Path) -> None:
    table, as_json, as_csv = (lakeward(*offline(folder), QUERY, "--format", form) for form in ("table", "json", "csv"))
    assert [ended.status for ended in (table, as_json, as_csv)] == [0, 0, 0]
    assert "│ flights    │ Scheduled │ 2026-01-01 00:05:01 │ 0      │" in table.out
    assert json.loads(as_json.out) == [
        {"table_name": "flights", "status": "Scheduled", "last_tiered_time": "2026-01-01T00:05:01+00:00", "lag_ms": 0}
    ]
    assert as_csv.out == "table_name,status,last_tiered_time,lag_ms\nflights,Scheduled,2026-01-01T00:05:01+00:00,0\n"


def test_the_folder_is_left_as_it_was(lakeward: Lakeward, folder: Path) -> None:
    before = contents(folder)
    script = (
        f"{QUERY}; SELECT count(*) FROM lake.demo.flights; SELECT * FROM demo.\"weather$lake\"; CALL sys.validate_table('demo.flights')"
    )
    ended = lakeward(*offline(folder), script)
    assert ended.status == 0, ended.err
    assert contents(folder) == before
    assert [file.name for file in folder.rglob("*-wal") if file.stat().st_size] == []


def test_an_error_says_which_statement_and_where_and_ends_with_status_1(lakeward: Lakeward, folder: Path) -> None:
    ended = lakeward(*offline(folder), "SELECT 1;\nSELECT FROM WHERE", "--format", "csv")
    assert (ended.status, ended.out) == (1, "1\n1\n")
    assert ended.err.splitlines() == [
        "lakeward: the command line, statement 2 of 2, from line 2: line 1, column 13: Expected table name",
        "  SELECT FROM WHERE",
        "              ^^^^^",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--engine", "duckdb", "--lake-format", "iceberg"), "need --data"),
        (("--data", "."), "Add --engine duckdb"),
        (("--lake-format", "iceberg"), "Add --engine duckdb"),
        (("--engine", "duckdb", "--data", ".", "--conf", "a=b"), "--conf is an option for Spark"),
        (("--engine", "duckdb", "--master", "local[1]"), "--master is an option for Spark"),
        (("--engine", "duckdb", "--lake"), "--lake is an option for Spark"),
    ],
)
def test_options_of_the_other_engine_are_refused(lakeward: Lakeward, arguments: tuple[str, ...], message: str) -> None:
    ended = lakeward("sql", "SELECT 1", *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert message in ended.err


def test_no_folder_and_other_versions_are_refused_and_nothing_is_made(lakeward: Lakeward, tmp_path: Path) -> None:
    missing = lakeward(*offline(tmp_path / "nothing"), "SELECT 1")
    assert (missing.status, (tmp_path / "nothing").exists()) == (1, False)
    assert "is not a Lakeward data folder" in missing.err
    (tmp_path / "VERSION").write_text("1\n")
    assert "holds no state store" in lakeward(*offline(tmp_path), "SELECT 1").err
    (tmp_path / "VERSION").write_text("9\n")
    assert "has format version 9" in lakeward(*offline(tmp_path), "SELECT 1").err
    assert [file.name for file in tmp_path.iterdir()] == ["VERSION"]


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("coordinator.db", "UPDATE lakeward_owner SET version = 99", "the state store has version 99"),
        ("cluster/meta.db", "UPDATE facts SET value = '99' WHERE name = 'format_version'", "was written by a newer version"),
    ],
)
def test_what_a_newer_version_wrote_is_refused(lakeward: Lakeward, tmp_path: Path, file: str, change: str, message: str) -> None:
    folder = make_example_folder(tmp_path).root
    with sqlite3.connect(folder / file) as connection:
        connection.execute(change)
    ended = lakeward(*offline(folder), QUERY)
    assert ended.status == 1
    assert message in ended.err


def test_a_folder_where_nothing_was_tiered_has_no_lake_and_none_is_made(lakeward: Lakeward, tmp_path: Path) -> None:
    folder = make_example_folder(tmp_path).root
    (folder / "lake-catalog.db").unlink()
    ended = lakeward(*offline(folder), "SELECT * FROM demo.flights")
    assert ended.status == 1
    assert "the lake table of demo.flights is gone" in ended.err
    assert not (folder / "lake-catalog.db").exists()


def test_beside_a_coordinator_it_says_the_same_and_takes_nothing_away(lakeward: Lakeward, stocked: Deployment) -> None:
    columns = ("database_name", "table_name", "status", "pending_records", "freshness_ms", "tiering_epoch")
    sql = f"SELECT {', '.join(columns)} FROM sys.lake_tiering_status ORDER BY 1, 2"
    ended = lakeward(*offline(stocked.data.root), sql, "--format", "json")
    statuses = json.loads(lakeward("status", "--format", "json").out)
    assert [tuple(row.values())[1:4] for row in json.loads(ended.out)] == [
        (row["table"].split(".")[1], row["status"], row["pending_records"]) for row in sorted(statuses, key=lambda row: str(row["table"]))
    ]
    assert lakeward("status").status == 0


def test_the_prompt_needs_neither_spark_nor_a_service(folder: Path, tmp_path: Path) -> None:
    with Terminal(*offline(folder), "--uri", "127.0.0.1:1", env={"XDG_STATE_HOME": str(tmp_path)}) as terminal:
        terminal.wait_for(FIRST)
        terminal.type("SELECT count(*)\nFROM demo.flights;\n")
        terminal.wait_for("1 row in")
        terminal.type("SELECT count(*) FROM range(9999999999999) AS t WHERE t.range % 7 = 1;\n")
        terminal.wait_for("% 7 = 1;\n")
        terminal.type("\x03")
        terminal.wait_for("interrupted;")
        terminal.type("CALL sys.tier_table('demo.flights');\n")
        terminal.wait_for("needs a running service")
        assert terminal.end_input() == 0
    assert "1000" in terminal.text


def test_without_a_folder_the_service_is_asked(lakeward: Lakeward) -> None:
    def rows(statement: str) -> object:
        ended = lakeward("sql", "--engine", "duckdb", statement, "--format", "json")
        assert ended.status == 0, ended.err
        return json.loads(ended.out)

    query = "SELECT concat(database_name, '.', table_name) AS t, pending_records FROM sys.lake_tiering_status WHERE database_name = 'sales'"
    assert rows(query) == [{"t": "sales.orders", "pending_records": 30}]
    assert rows("SELECT count(*) AS n FROM sys.tables WHERE table_name = 'orders'") == [{"n": 1}]
    assert rows("SHOW TABLES IN sales") == [{"namespace": "sales", "tableName": "orders", "isTemporary": False}]
    assert rows("DESCRIBE TABLE sales.orders")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CALL sys.pause_tiering('sales.orders')", "changes something, which --engine duckdb never does"),
        ("CALL sys.explain_tiering('sales.orders')", "sys.explain_tiering is not answered by --engine duckdb"),
        ("ALTER TABLE lake.sales.orders DROP COLUMN a", "ALTER cannot run with --engine duckdb"),
        ("SELECT * FROM lake.sales.orders", "sales.orders"),
        ("SELECT * FROM sys.nothing", "there is no system table sys.nothing"),
        ("CALL sys.validate_table('sales.orders')", "was never tiered"),
    ],
)
def test_what_the_service_cannot_serve_this_way_is_said(lakeward: Lakeward, statement: str, message: str) -> None:
    ended = lakeward("sql", "--engine", "duckdb", statement)
    assert ended.status == 1
    assert message in ended.err
