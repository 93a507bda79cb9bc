"""INSERT and DELETE through a JDBC connection and through Spark Connect: each statement is executed once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.doc_blocks import DocBlocks
from support.running.cluster_of_processes import Deployment
from support.services.client_statements import Answer, Rows
from support.services.sql_clients import ask_jdbc, ask_python
from tiering.model.tables import TablePath


def statements(table: str) -> list[str]:
    return [
        f"INSERT INTO fluss.demo.{table} VALUES (1, 'a'), (2, 'b')",
        f"INSERT INTO fluss.demo.{table} VALUES (1, 'a'), (2, 'b')",
        f"INSERT INTO fluss.demo.{table}_keyed VALUES (1, 'a'), (2, 'b')",
        f"DELETE FROM fluss.demo.{table}_keyed WHERE id = 1",
        f"SELECT count(*) AS rows FROM fluss.demo.{table}",
        f"SELECT count(*) AS records FROM fluss.demo.`{table}_keyed$changelog`",
    ]


@pytest.fixture
def written(service: Deployment, request: pytest.FixtureRequest) -> str:
    """A log table and a primary-key table for this test; their name."""
    name = request.node.name.removeprefix("test_").split("[")[0]
    service.create(TablePath("demo", name), freshness="1 h")
    service.create_keyed(TablePath("demo", f"{name}_keyed"))
    return name


def assert_executed_once(answers: list[Answer]) -> None:
    """Two equal INSERTs write their rows twice; a deletion of one of two rows makes a third record."""
    assert answers[-2:] == [Rows(("rows",), (("4",),)), Rows(("records",), (("3",),))], answers


def test_jdbc(thrift_server: Path, jdbc_url: str, jvm: Any, written: str) -> None:
    connection = jvm.java.sql.DriverManager.getConnection(jdbc_url, "ann", "")
    try:
        assert_executed_once(ask_jdbc(connection, statements(written)))
    finally:
        connection.close()


def test_spark_connect(connect_server: Path, blocks: DocBlocks, tmp_path: Path, written: str) -> None:
    _, answers = ask_python(blocks["connect"], tmp_path, statements(written))

    assert_executed_once(answers)
