"""GUI tools see over JDBC exactly the lists that docs/connect.md names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from support.doc_blocks import DocBlocks
from support.services.sql_clients import result_rows, run
from sys_tables.registry import default_registry

Listed = Callable[..., list[dict[str, str]]]


@pytest.fixture(scope="module")
def connection(thrift_server: Path, jdbc_url: str, jvm: Any) -> Iterator[Any]:
    connected = jvm.java.sql.DriverManager.getConnection(jdbc_url, "ann", "")
    yield connected
    connected.close()


@pytest.fixture
def listed(connection: Any) -> Listed:
    """Calls a method of `DatabaseMetaData`; its rows by their columns' names."""

    def call(method: str, *arguments: object) -> list[dict[str, str]]:
        answer_rows = result_rows(getattr(connection.getMetaData(), method)(*arguments))
        return [dict(zip(answer_rows.columns, cells, strict=True)) for cells in answer_rows.cells]

    return call


def names(rows: list[dict[str, str]], column: str) -> set[str]:
    return {row[column] for row in rows}


@pytest.mark.in_turn("database")
@pytest.mark.parametrize("database", ["", "/", "/default"])
def test_a_url_without_a_database_begins_in_an_empty_one(thrift_server: Path, jdbc_url: str, jvm: Any, database: str) -> None:
    connected = jvm.java.sql.DriverManager.getConnection(jdbc_url.removesuffix("/sys") + database, "ann", "")
    try:

        def query(sql: str) -> tuple[tuple[str, ...], ...]:
            cells: tuple[tuple[str, ...], ...] = result_rows(connected.createStatement().executeQuery(sql)).cells
            return cells

        assert query("SELECT current_catalog(), current_schema()") == (("fluss", "default"),)
        assert query("SHOW TABLES") == ()
        assert query("SHOW NAMESPACES") == (("demo",), ("sys",))
        assert query("SELECT table_name FROM sys.lake_tiering_status") == (("flights",),)
        with pytest.raises(Py4JJavaError, match="the namespace default of the catalog fluss is empty"):
            query("CREATE TABLE default.x (id INT)")
    finally:
        connected.close()


def test_metadata_calls_list_the_current_catalog(listed: Listed) -> None:
    assert listed("getCatalogs") == []
    assert [row["TABLE_SCHEM"] for row in listed("getSchemas")] == ["demo", "sys"]
    assert [row["TABLE_NAME"] for row in listed("getTables", None, "demo", "%", None)] == ["flights", "planes"]
    assert {row["TABLE_NAME"]: row["REMARKS"] for row in listed("getTables", None, "sys", "%", None)} == {
        table.name: table.comment for table in default_registry().tables
    }
    assert {row["TABLE_TYPE"] for row in listed("getTables", None, None, None, None)} == {"TABLE"}
    assert names(listed("getTableTypes"), "TABLE_TYPE") == {"TABLE", "VIEW"}
    assert names(listed("getFunctions", None, "%", "upper"), "FUNCTION_NAME") == {"upper"}
    assert listed("getProcedures", None, "%", "%") == []
    assert listed("getPrimaryKeys", None, "sys", "tables") == []


def test_columns_have_positions_types_and_comments(listed: Listed) -> None:
    schema = default_registry().table("lake_tiering_status").schema
    columns = listed("getColumns", None, "sys", "lake\\_tiering\\_status", "%")

    assert [(row["COLUMN_NAME"], int(row["ORDINAL_POSITION"])) for row in columns] == [
        (name, position) for position, name in enumerate(schema.names, 1)
    ]
    assert all(row["REMARKS"] not in ("", "NULL") for row in columns)
    types = {row["COLUMN_NAME"]: tuple(row[name] for name in ("TYPE_NAME", "DATA_TYPE", "COLUMN_SIZE")) for row in columns}
    assert types["status"] == ("STRING", "12", str(2**31 - 1))
    assert types["lag_ms"] == ("BIGINT", "-5", "19")
    assert types["paused"] == ("BOOLEAN", "16", "1")
    assert types["last_tiered_time"] == ("TIMESTAMP", "93", "26")


@pytest.mark.parametrize(
    ("schema", "table", "column", "expected"),
    [
        ("DEMO", "Flights", "ID", [("demo", "flights", "id")]),
        ("dem_", "f%", "%", [("demo", "flights", "id"), ("demo", "flights", "text")]),
        ("d%", "%a%", "te_t", [("demo", "planes", "text")]),
        ("dem\\_", "%", "%", []),
        ("demo", "flight_", "i", []),
        ("no_such_schema", "%", "%", []),
    ],
)
def test_patterns_match_names_in_any_case(listed: Listed, schema: str, table: str, column: str, expected: list[tuple[str, ...]]) -> None:
    columns = listed("getColumns", None, schema, table, column)

    assert [(row["TABLE_SCHEM"], row["TABLE_NAME"], row["COLUMN_NAME"]) for row in columns] == expected


def test_metadata_calls_follow_the_current_catalog(thrift_server: Path, jdbc_url: str, jvm: Any, listed: Listed) -> None:
    connected = jvm.java.sql.DriverManager.getConnection(jdbc_url, "ann", "")
    try:
        connected.createStatement().execute("USE spark_catalog.default")
        schemas = {cells[0] for cells in result_rows(connected.getMetaData().getSchemas()).cells}
    finally:
        connected.close()

    assert {"default", "global_temp"} <= schemas
    assert not schemas & {"demo", "sys"}
    assert names(listed("getSchemas"), "TABLE_SCHEM") == {"demo", "sys"}, "another session keeps its catalog"


def test_the_current_database_is_that_of_the_url(connection: Any) -> None:
    connection.setCatalog("spark_catalog")
    assert (connection.getCatalog(), connection.getSchema()) == ("", "sys")
    answer_rows = result_rows(connection.createStatement().executeQuery("SELECT current_catalog(), current_schema(), current_user()"))
    assert answer_rows.cells == (("fluss", "sys", "ann"),)


def test_a_call_is_a_statement_and_has_no_prepared_form(connection: Any) -> None:
    with pytest.raises(Py4JJavaError, match="Method not supported"):
        connection.prepareCall("{call fluss.sys.help()}")
    statement = connection.prepareStatement("CALL sys.help(?)")
    statement.setString(1, "tier_table")
    assert {cells[0] for cells in result_rows(statement.executeQuery()).cells} == {"tier_table"}


def test_views_put_the_system_tables_into_the_tree_of_the_built_in_catalog(
    thrift_server: Path, blocks: DocBlocks, connection: Any, listed: Listed
) -> None:
    printed = run(blocks["views"], thrift_server)

    assert "Error" not in printed, printed
    connection.createStatement().execute("USE spark_catalog.lakeward")
    tables = {row["TABLE_NAME"]: row for row in listed("getTables", None, "lakeward", "%", None)}
    assert {name: (row["TABLE_TYPE"], row["REMARKS"]) for name, row in tables.items()} == {
        table.name: ("VIEW", table.comment) for table in default_registry().tables
    }
    columns = listed("getColumns", None, "lakeward", "lake_tiering_status", "%")
    assert [row["COLUMN_NAME"] for row in columns] == default_registry().table("lake_tiering_status").schema.names
    assert {(row["COLUMN_NAME"], row["TYPE_NAME"]) for row in columns} >= {
        ("status", "STRING"),
        ("lag_ms", "BIGINT"),
        ("paused", "BOOLEAN"),
    }
    assert all(row["REMARKS"] not in ("", "NULL") for row in columns)
    session_rows = result_rows(
        connection.createStatement().executeQuery("SELECT table_name, status FROM spark_catalog.lakeward.lake_tiering_status")
    )
    assert session_rows.cells == (("flights", "Scheduled"),)
    again = (thrift_server / "views.sql").read_text().split(";\n")[:-1]
    assert [connection.createStatement().execute(sql) for sql in again], "a second time, as after an upgrade"
