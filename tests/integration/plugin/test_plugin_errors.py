"""Errors in the plugin say what happened, where, and what to do, without a Java stack trace."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc.aio
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from support.worlds.memory_coordinator import MemoryCoordinator, table_info
from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import EVERY_CALLER
from tiering.coordinator.interface import CoordinatorView
from tiering.errors import StoreError
from tiering.model.declare import column

Serve = Callable[..., Any]
Session = Callable[..., SparkSession]


@dataclass(frozen=True)
class OldRow:
    number: int = column("A number.")
    text: str = column("A text.")


@dataclass(frozen=True)
class NewRow:
    number: str = column("No number any more.")
    text: str = column("A text.")


@system_table("changing", OldRow, requires=EVERY_CALLER, comment="As it was.")
def as_it_was(view: CoordinatorView, scan: ScanRequest) -> Iterator[OldRow]:
    yield OldRow(1, "a")


@system_table("changing", NewRow, requires=EVERY_CALLER, comment="As it is.")
def as_it_is(view: CoordinatorView, scan: ScanRequest) -> Iterator[NewRow]:
    yield NewRow("one", "a")


@system_table("broken", OldRow, requires=EVERY_CALLER, comment="Cannot be read.")
def broken(view: CoordinatorView, scan: ScanRequest) -> Iterator[OldRow]:
    yield OldRow(1, "a")
    raise StoreError("the state store is locked", hint="Is another coordinator running?")


@pytest.fixture
def server(serve: Serve) -> Any:
    return serve(MemoryCoordinator([table_info("demo.Flights")]), tables=[as_it_was, broken])


def complaint(spark: SparkSession, sql: str) -> str:
    """The message of the error that the statement raises: one line, and nothing of Java's behind it."""
    with pytest.raises(AnalysisException) as raised:
        spark.sql(sql).collect()
    message = str(raised.value)
    assert "io.grpc" not in message
    assert len(message.splitlines()) == 1, message
    assert raised.value.__cause__ is None
    return message


def test_a_service_that_is_not_there_is_named_with_what_to_do(session: Session) -> None:
    spark = session("lakeward://127.0.0.1:1")

    for sql in (
        "SELECT * FROM fluss.sys.tables",
        "SHOW TABLES IN fluss.sys",
        "CALL fluss.sys.tier_table('a.b')",
        "SHOW NAMESPACES IN fluss",
    ):
        message = complaint(spark, sql)
        assert "no Lakeward service answers at 127.0.0.1:1" in message
        assert "lakeward up" in message
        assert "spark.sql.catalog.fluss.uri" in message


def test_a_service_that_appears_later_is_found_without_a_new_session(server: Any, session: Session) -> None:
    spark = session(server.uri)
    server.stop()
    assert "no Lakeward service answers" in complaint(spark, "SHOW NAMESPACES IN fluss")
    assert "no Lakeward service answers" in complaint(spark, "SHOW NAMESPACES IN fluss")

    server.start()

    assert spark.sql("SELECT number FROM fluss.sys.changing").first().number == 1


def test_a_restart_between_two_statements_is_not_noticed(server: Any, session: Session) -> None:
    spark = session(server.uri)
    assert spark.sql("SELECT number FROM fluss.sys.changing").first().number == 1

    for _ in range(3):
        server.stop()
        server.start()
        assert spark.sql("SELECT number FROM fluss.sys.changing").first().number == 1


def test_a_silent_service_is_given_up_after_the_timeout(session: Session) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        message = complaint(session(f"127.0.0.1:{silent.getsockname()[1]}", timeout="200ms"), "SHOW NAMESPACES IN fluss")

    assert "did not answer within 200 ms" in message
    assert "spark.sql.catalog.fluss.timeout" in message


def test_a_service_without_the_catalog_is_said_to_be_none(session: Session) -> None:
    async def strangers() -> str:
        server = grpc.aio.server()
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            return await asyncio.to_thread(complaint, session(f"127.0.0.1:{port}"), "SHOW NAMESPACES IN fluss")
        finally:
            await server.stop(grace=None)

    assert "is not a Lakeward service, or is older than this plugin" in asyncio.run(strangers())


@pytest.mark.parametrize(
    ("sql", "condition", "words"),
    [
        ("SELECT * FROM fluss.sys.nope", "TABLE_OR_VIEW_NOT_FOUND", ["fluss.sys.nope", "broken, changing, ", "lake_tiering_status"]),
        ("SELECT * FROM fluss.demo.nope", "TABLE_OR_VIEW_NOT_FOUND", ["demo.nope", "Flights"]),
        ("SELECT * FROM fluss.nope.t", "TABLE_OR_VIEW_NOT_FOUND", ["no namespace nope", "demo, sys"]),
        ("SHOW TABLES IN fluss.nope", "SCHEMA_NOT_FOUND", ["no namespace nope", "demo, sys"]),
        ("SELECT * FROM fluss.a.b.c", "TABLE_OR_VIEW_NOT_FOUND", ["namespace.table"]),
        ("CALL fluss.nope.p()", "ROUTINE_NOT_FOUND", ["no namespace nope", "demo, sys"]),
        ("CALL fluss.demo.tier_table('a')", "ROUTINE_NOT_FOUND", ["fluss.demo.tier_table", "none"]),
        ("SELECT * FROM fluss.demo.`flights$lake`", None, ["fluss.demo.Flights", "lakeward lake-conf"]),
        ("SELECT * FROM fluss.sys.broken", None, ["[StoreError] the state store is locked", "Is another coordinator running?"]),
    ],
)
def test_what_is_not_there_or_cannot_be_read_is_explained(
    sql: str, condition: str | None, words: list[str], server: Any, session: Session
) -> None:
    spark = session(server.uri)
    message = complaint(spark, sql)

    assert all(word in message for word in words), message
    with pytest.raises(AnalysisException) as raised:
        spark.sql(sql).collect()
    assert raised.value.getCondition() == condition


def test_what_does_not_exist_is_found_not_to_exist(server: Any, session: Session) -> None:
    spark = session(server.uri)

    assert not spark.catalog.tableExists("fluss.sys.nope")
    assert not spark.catalog.tableExists("fluss.demo.nope")
    assert not spark.catalog.tableExists("fluss.nope.nope")
    assert not spark.catalog.databaseExists("fluss.nope")
    assert spark.catalog.databaseExists("fluss.demo")


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO fluss.sys.changing VALUES (1, 'a')",
        "INSERT INTO fluss.sys.changing VALUES (1)",
        "INSERT OVERWRITE fluss.sys.changing VALUES (1, 'a')",
        "DELETE FROM fluss.sys.changing",
        "DELETE FROM fluss.sys.changing WHERE number = 1",
        "UPDATE fluss.sys.changing SET number = 2",
        "MERGE INTO fluss.sys.changing t USING (SELECT 1 AS n) s ON t.number = s.n WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE fluss.sys.changing",
        "CREATE TABLE fluss.sys.other (a INT)",
        "CREATE TABLE fluss.sys.other AS SELECT 1 AS a",
        "CREATE OR REPLACE TABLE fluss.sys.changing (a INT)",
        "DROP TABLE fluss.sys.changing",
        "ALTER TABLE fluss.sys.changing ADD COLUMN a INT",
        "ALTER TABLE fluss.sys.changing SET TBLPROPERTIES ('a' = 'b')",
        "ALTER TABLE fluss.sys.changing RENAME TO sys.other",
        "DROP NAMESPACE fluss.sys CASCADE",
        "ALTER NAMESPACE fluss.sys SET PROPERTIES ('a' = 'b')",
    ],
)
def test_system_tables_cannot_be_changed(sql: str, server: Any, session: Session) -> None:
    assert "system tables are read-only" in complaint(session(server.uri), sql)


@pytest.mark.parametrize("sql", ["DROP TABLE fluss.demo.flights", "CREATE TABLE fluss.demo.other (a INT)", "CREATE NAMESPACE fluss.other"])
def test_a_service_that_defines_no_tables_is_named(sql: str, server: Any, session: Session) -> None:
    assert f"the server at {server.uri} is not a Lakeward service, or is older than this plugin" in complaint(session(server.uri), sql)


def test_a_data_frame_is_not_written_to_a_system_table(server: Any, session: Session) -> None:
    spark = session(server.uri)
    rows = spark.sql("SELECT 1 AS number, 'a' AS text")

    for write in (
        lambda: rows.writeTo("fluss.sys.changing").append(),
        lambda: rows.write.mode("append").saveAsTable("fluss.sys.changing"),
        lambda: rows.write.insertInto("fluss.sys.changing"),
    ):
        with pytest.raises(AnalysisException, match="system tables are read-only"):
            write()


def test_a_statement_planned_before_a_column_changed_is_refused(server: Any, session: Session) -> None:
    spark = session(server.uri)
    planned, unaffected = spark.table("fluss.sys.changing"), spark.sql("SELECT text FROM fluss.sys.changing")

    server.registry.__init__((as_it_is,), ())

    with pytest.raises(AnalysisException, match=r"\[StatementOutdated\].*number.*Run the statement again"):
        planned.select("number").collect()
    assert unaffected.first().text == "a"
    assert spark.sql("SELECT number FROM fluss.sys.changing").count() == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"uri": ""}, ["spark.sql.catalog.fluss.uri", "host:port"]),
        ({"uri": "http://localhost:1"}, ["spark.sql.catalog.fluss.uri", "http://localhost:1", "host:port"]),
        ({"uri": "localhost:99999"}, ["spark.sql.catalog.fluss.uri", "localhost:99999"]),
        ({"timeout": "soon"}, ["spark.sql.catalog.fluss.timeout", "'soon'", "30s"]),
        ({"token": "secret"}, ["spark.sql.catalog.fluss.token is not supported", "spark.sql.catalog.fluss.token-file"]),
        ({"tls-ca": "/ca.pem"}, ["spark.sql.catalog.fluss.tls-ca is not supported", "spark.sql.catalog.fluss.tls.ca"]),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], words: list[str], session: Session) -> None:
    message = complaint(session(**{"uri": "127.0.0.1:1", **options}), "SHOW NAMESPACES IN fluss")

    assert all(word in message for word in words), message
    assert "secret" not in message


def test_an_option_of_a_later_version_is_ignored(server: Any, session: Session) -> None:
    assert session(server.uri, colour="blue").sql("SHOW TABLES IN fluss.sys").count() > 0


def test_a_service_on_ipv6_is_reached(serve: Serve, session: Session) -> None:
    server = serve(MemoryCoordinator([table_info("demo.Flights")]), host="[::1]")

    assert session(server.uri).sql("SELECT table_name FROM fluss.sys.tables").collect()[0][0] == "Flights"
