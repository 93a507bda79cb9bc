"""Metadata calls of JDBC to a Thrift server: many tables cost a page of calls, and each column is listed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from integration.plugin.conftest import Server
from pyspark.sql import SparkSession

from support.worlds.memory_coordinator import MemoryCoordinator, table_info
from tiering.cli.fluss_server.held_ports import HeldPort

TABLES = 5_000
PAGES = 5
"""The service describes a thousand tables in a page."""

Serve = Callable[..., Server]
Session = Callable[..., SparkSession]


@pytest.fixture(scope="module")
def thrift_url(jvm: SparkSession) -> Iterator[str]:
    """A Thrift server in the JVM of these tests."""
    java = jvm._jvm
    assert java is not None
    with HeldPort() as port:
        java.System.setProperty("hive.server2.thrift.bind.host", "127.0.0.1")
        java.System.setProperty("hive.server2.thrift.port", str(port.number))
        server = java.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2.startWithContext(jvm._jsparkSession.sqlContext())
        yield f"jdbc:hive2://{port.address}/default"
        server.stop()


@pytest.fixture
def metadata(thrift_url: str, jvm: SparkSession, session: Session) -> Iterator[Callable[[str], Any]]:
    """The metadata of a connection whose current catalog is a service's."""
    opened = []

    def connect(uri: str) -> Any:
        session(uri, lake="a_catalog_that_cannot_be_opened")
        connection = jvm._jvm.java.sql.DriverManager.getConnection(thrift_url, "ann", "")
        opened.append(connection)
        connection.createStatement().execute("USE fluss")
        return connection.getMetaData()

    yield connect
    for connection in opened:
        connection.close()


def read(jvm: SparkSession, result: Any, columns: int) -> list[str]:
    """The first columns of a `java.sql.ResultSet`, a text for each row, in one call to the JVM."""
    java = jvm._jvm
    assert java is not None
    schema = java.org.apache.spark.sql.types.DataType.fromDDL(", ".join(f"c{number} STRING" for number in range(columns)))
    read_rows = java.org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils.resultSetToRows(result, schema)
    text: str = read_rows.mkString("\n")
    return text.split("\n")


def test_a_listing_of_5000_tables_makes_a_call_a_page_and_opens_no_lake_table(
    serve: Serve, metadata: Callable[[str], Any], jvm: SparkSession
) -> None:
    infos = [table_info(f"wide.t{number:04d}", table_id=number, properties={"comment": f"Table {number}."}) for number in range(TABLES)]
    server = serve(MemoryCoordinator(infos))
    connected = metadata(server.uri)
    server.lookups.clear()

    tables = read(jvm, connected.getTables(None, "wide", "%", None), 5)
    calls_of_tables = len(server.lookups)
    columns = read(jvm, connected.getColumns(None, "wide", "%", "%"), 4)
    calls_of_columns = len(server.lookups) - calls_of_tables
    columns_of_one = read(jvm, connected.getColumns(None, "wide", "t4999", "%"), 4)

    assert tables == [f"[,wide,t{number:04d},TABLE,Table {number}.]" for number in range(TABLES)]
    assert columns_of_one == ["[null,wide,t4999,flight]", "[null,wide,t4999,carrier]"] == columns[-2:]
    assert len(columns) == TABLES * 2
    assert max(calls_of_tables, calls_of_columns) <= PAGES + 1, (calls_of_tables, calls_of_columns)
    assert "[BIGINT,-5]" in read(jvm, connected.getTypeInfo(), 2)


def test_a_partition_column_is_listed_once_and_names_match_in_any_case(
    serve: Serve, metadata: Callable[[str], Any], jvm: SparkSession
) -> None:
    server = serve(MemoryCoordinator([table_info("Sales.Orders", partition_keys=("flight",))]))

    columns = read(jvm, metadata(server.uri).getColumns(None, "sales", "ORDERS", "%"), 6)

    assert columns == ["[null,Sales,Orders,flight,-5,BIGINT]", "[null,Sales,Orders,carrier,12,STRING]"]
