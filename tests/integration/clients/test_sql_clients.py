"""Every client runs the same list of statements and sees the same: with `fluss.sys` and, as default catalog, with `sys`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.doc_blocks import DocBlocks
from support.running.processes import wait_for
from support.services.client_statements import PLANES_ROWS, SQL, Rows, problems
from support.services.sql_clients import ask_beeline, ask_jdbc, ask_python, ask_shell, result_rows, run

WAIT_FOR_OFFSETS = """
from pyspark.sql.functions import create_map, lit

wait = "CALL fluss.sys.wait_for_tiering(:table, offsets => :offsets, timeout_ms => 0)"
offsets = create_map(lit("0"), lit(1), lit("1"), lit(1))
[row] = spark.sql(wait, args={"table": "demo.flights", "offsets": offsets}).collect()
print("reached:", row.reached)
"""
"""The offsets as an argument of the statement, not in its text."""


@pytest.mark.soak
def test_the_spark_sql_shell(folder: Path, blocks: DocBlocks) -> None:
    assert problems(ask_shell(blocks["spark-sql"], folder, SQL), shell=True) == []


def test_beeline_over_the_thrift_server(thrift_server: Path, blocks: DocBlocks) -> None:
    assert problems(ask_beeline(blocks["beeline"], thrift_server, SQL)) == []


def test_a_jdbc_connection_over_the_thrift_server(thrift_server: Path, jdbc_url: str, jvm: Any) -> None:
    connection = jvm.java.sql.DriverManager.getConnection(jdbc_url, "ann", "")
    try:
        assert problems(ask_jdbc(connection, SQL)) == []
    finally:
        connection.close()


def test_a_read_is_open_while_a_jdbc_client_fetches_its_rows_in_pieces(thrift_server: Path, jdbc_url: str, jvm: Any) -> None:
    connection, other = (jvm.java.sql.DriverManager.getConnection(jdbc_url, "ann", "") for _ in range(2))

    def open_reads() -> set[str]:
        [reads] = ask_jdbc(other, ["SELECT read_id FROM fluss.sys.open_reads WHERE table_name = 'planes'"])
        assert isinstance(reads, Rows)
        return {read_id for (read_id,) in reads.cells}

    try:
        before = open_reads()
        connection.createStatement().execute("SET spark.sql.thriftServer.incrementalCollect=true")
        statement = connection.createStatement()
        statement.setFetchSize(1)
        rows = statement.executeQuery("SELECT id FROM fluss.demo.planes")
        assert rows.next()
        [read] = open_reads() - before

        # Reads end in the order in which their statements end.
        ask_jdbc(other, ["SELECT max(text) FROM fluss.demo.planes"])
        wait_for("the read of a later statement ends", lambda: not open_reads() - before - {read})

        assert read in open_reads()
        assert len(result_rows(rows).cells) == PLANES_ROWS - 1
    finally:
        connection.close()
        other.close()


def test_the_statements_of_the_page(thrift_server: Path, blocks: DocBlocks, jdbc_url: str, jvm: Any) -> None:
    connection = jvm.java.sql.DriverManager.getConnection(jdbc_url, "ann", "")
    try:
        late, called, *there = ask_jdbc(connection, [*blocks.statements("first"), *blocks.statements("what-is-there")])
    finally:
        connection.close()

    assert late == Rows(("table_name", "status", "lag_ms"), (("flights", "Scheduled", "0"),))
    assert isinstance(called, Rows)
    assert called.cells[0][0] == "demo.flights"
    assert [problem for problem in there if not isinstance(problem, Rows) or not problem.cells] == []


def test_spark_connect(connect_server: Path, blocks: DocBlocks, tmp_path: Path) -> None:
    program = blocks["connect"] + "\n" + WAIT_FOR_OFFSETS
    shown, [*answers, plan] = ask_python(program, tmp_path, [*SQL, "EXPLAIN SELECT * FROM fluss.sys.lake_tiering_status"])

    assert problems(answers) == []
    assert "|   flights|Scheduled|     0|" in shown
    assert "reached: True" in shown
    assert "LocalTableScan" in str(plan), "Connect runs a job for the rows of a scan that is not Spark's own"


@pytest.mark.soak
def test_classic_pyspark(folder: Path, blocks: DocBlocks) -> None:
    shown, answers = ask_python(blocks["pyspark"], folder, SQL)

    assert problems(answers) == []
    assert "|   flights|Scheduled|     0|" in shown


def test_the_java_program_of_the_page(thrift_server: Path, blocks: DocBlocks, tmp_path: Path) -> None:
    (tmp_path / "Tiering.java").write_text(blocks["Tiering.java"])

    printed = run(blocks["jdbc-program"], tmp_path)

    assert "flights is Scheduled, 0 ms late\nround: EMPTY\n" in printed


def test_a_session_that_runs_already_gets_the_catalog_by_sql(blocks: DocBlocks, folder: Path, tmp_path: Path) -> None:
    properties = (folder / "fluss.conf").read_text().splitlines()
    [class_path] = [line.split()[1] for line in properties if line.startswith("spark.driver.extraClassPath")]
    jar = class_path.split(":")[0]
    *settings, query = [sql.replace("/path/to/lakeward-spark-plugin.jar", jar) for sql in blocks.statements("late")]
    uri, _, address = blocks["late-start"].strip().partition("  ")
    started = f'.master("local[1]").config("{uri}", "{address.strip()}")'
    plain = f"from pyspark.sql import SparkSession\nspark = SparkSession.builder{started}.getOrCreate()"

    _, answers = ask_python(plain, tmp_path, [query, *settings, query, "USE fluss", "SHOW TABLES IN sys LIKE 'tables'"])

    assert "single-part namespace" in str(answers[0])
    assert answers[-3] == Rows(("table_name", "status"), (("flights", "Scheduled"),))
    assert answers[-1] == Rows(("namespace", "tableName", "isTemporary"), (("sys", "tables", "false"),))


@pytest.mark.soak
def test_the_spark_sql_shell_in_the_default_database(folder: Path, blocks: DocBlocks) -> None:
    statements = ["SELECT current_schema() AS name", "SHOW TABLES", "SELECT table_name FROM sys.lake_tiering_status"]

    name, tables, status = ask_shell(f"{blocks['spark-sql'].rstrip()} --database default", folder, statements)

    assert name == Rows(("name",), (("default",),))
    assert isinstance(tables, Rows)
    assert tables.cells == ()
    assert status == Rows(("table_name",), (("flights",),))
