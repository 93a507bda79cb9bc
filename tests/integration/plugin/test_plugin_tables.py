"""System tables and data tables, as Spark SQL shows them through the plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from support.running.spark_sessions import complaint
from support.worlds.memory_coordinator import MemoryCoordinator, table_info, table_status
from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import SystemTable, system_table
from tiering.access.requirements import EVERY_CALLER
from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import INT, column

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
LISTED_TABLES = 5_000
PAGES = 5
"""The service describes a thousand tables in a page."""
Serve = Callable[..., Any]
Session = Callable[..., SparkSession]
Jobs = Callable[[Callable[[], object]], int]


@dataclass(frozen=True)
class Part:
    name: str = column("Its name.")
    size: int | None = column("Its size.")


@dataclass(frozen=True)
class KindRow:
    id: int = column("Number of the row.")
    text: str | None = column("A STRING.")
    small: int | None = column("An INT.", arrow_type=INT)
    big: int | None = column("A BIGINT.")
    real: float | None = column("A DOUBLE.")
    truth: bool | None = column("A BOOLEAN.")
    moment: datetime | None = column("A TIMESTAMP.")
    words: tuple[str, ...] | None = column("An ARRAY.")
    parts: tuple[Part, ...] | None = column("An ARRAY of STRUCTs.")
    offsets: Mapping[str, int] | None = column("A MAP.")


KINDS = [
    KindRow(1, "naïve 日本", -(2**31), -(2**63), -0.5, True, NOON, ("a", "b"), (Part("x", 1), Part("y", None)), {"k": 7}),
    KindRow(2, None, None, None, None, None, None, None, None, None),
    KindRow(3, "", 2**31 - 1, 2**63 - 1, 1e308, False, NOON + timedelta(days=1), (), (), {}),
]


@system_table("kinds", KindRow, requires=EVERY_CALLER, comment="Every type.")
def kinds(view: CoordinatorView, scan: ScanRequest) -> Iterator[KindRow]:
    yield from KINDS


@dataclass(frozen=True)
class NumberRow:
    number: int = column("Counts up.")
    text: str = column("Some weight.")


def numbers(name: str, rows: int) -> SystemTable:
    @system_table(name, NumberRow, requires=EVERY_CALLER, comment="Counts.")
    def table(view: CoordinatorView, scan: ScanRequest) -> Iterator[NumberRow]:
        for number in range(rows):
            yield NumberRow(number, f"{number:08d} {'x' * 600}")

    return table


@pytest.fixture
def flights(serve: Serve) -> Any:
    infos = [table_info("sales.Orders"), table_info("demo.Flights", properties={"comment": "All flights of 2013."})]
    coordinator = MemoryCoordinator(infos, [table_status("demo.Flights", status="Tiered")], empty_databases=["empty"])
    return serve(coordinator, tables=[kinds, numbers("nothing", 0), numbers("many", 5_000)])


def column_of(spark: SparkSession, sql: str, name: str) -> list[Any]:
    return [row[name] for row in spark.sql(sql).collect()]


def test_namespaces_and_tables_are_listed(flights: Any, session: Session) -> None:
    spark = session(flights.uri)

    assert column_of(spark, "SHOW NAMESPACES IN fluss", "namespace") == ["demo", "empty", "sales", "sys"]
    assert {"kinds", "lake_tiering_status", "many"} <= set(column_of(spark, "SHOW TABLES IN fluss.sys", "tableName"))
    assert column_of(spark, "SHOW TABLES IN fluss.sys LIKE 'kin*'", "tableName") == ["kinds"]
    assert column_of(spark, "SHOW TABLES IN fluss.demo", "tableName") == ["Flights"]
    assert column_of(spark, "SHOW TABLES IN fluss.empty", "tableName") == []
    assert [table.name for table in spark.catalog.listTables("fluss.demo")] == ["Flights"]


def test_a_long_list_of_tables_is_paged_to_its_end(serve: Serve, session: Session) -> None:
    names = [f"t{number:04d}" for number in range(2_001)]
    server = serve(MemoryCoordinator([table_info(f"wide.{name}") for name in names]))

    assert column_of(session(server.uri), "SHOW TABLES IN fluss.wide", "tableName") == names


def test_a_listing_with_details_makes_a_call_a_page_and_opens_no_lake_table(serve: Serve, session: Session) -> None:
    """`SHOW TABLE EXTENDED` took 389 s for 5,000 tables, with two calls and a lake table opened for each."""
    infos = [table_info(f"wide.t{number:04d}", table_id=number, properties={"comment": f"Table {number}."}) for number in range(1_500)]
    server = serve(MemoryCoordinator(infos))
    spark = session(server.uri, lake="a_catalog_that_cannot_be_opened")

    for listed in ("SHOW TABLE EXTENDED IN fluss.wide LIKE '*'", "listTables"):
        server.lookups.clear()
        if listed == "listTables":
            assert [table.description for table in spark.catalog.listTables("fluss.wide")] == [f"Table {n}." for n in range(1_500)]
        else:
            rows = spark.sql(listed).collect()
            assert [row.tableName for row in rows] == [f"t{number:04d}" for number in range(1_500)]
            information = rows[1_499].information.replace(", ", "")  # Spark 4.1 puts a comma behind each character of the properties
            assert "Comment: Table 1499." in information
            assert "lake.table=a_catalog_that_cannot_be_opened.wide.t1499" in information
            assert "Provider: lakeward" in information
            assert " |-- flight: long" in information
            assert "lake.unreadable" not in information
        assert len(server.lookups) <= 4, f"{listed}: {len(server.lookups)} calls"


def test_a_listing_shows_what_is_there_now_and_a_query_after_it_opens_the_lake(serve: Serve, session: Session) -> None:
    coordinator = MemoryCoordinator([table_info("wide.a"), table_info("wide.b", table_id=2)])
    spark = session(serve(coordinator).uri, lake="a_catalog_that_cannot_be_opened")
    extended = "SHOW TABLE EXTENDED IN fluss.wide LIKE '*'"
    assert column_of(spark, extended, "tableName") == ["a", "b"]

    coordinator.infos = [table_info("wide.b", table_id=2, properties={"comment": "Changed."}), table_info("wide.c", table_id=3)]

    assert column_of(spark, extended, "tableName") == ["b", "c"]
    assert "Comment: Changed." in column_of(spark, extended, "information")[0]
    assert column_of(spark, "SHOW TABLE EXTENDED IN fluss.sys LIKE 'tier*'", "tableName") == column_of(
        spark, "SHOW TABLES IN fluss.sys LIKE 'tier*'", "tableName"
    )
    with pytest.raises(AnalysisException, match="a_catalog_that_cannot_be_opened, which this Spark does not have"):
        spark.sql("SELECT * FROM fluss.wide.`b$lake`").collect()


def test_describe_shows_columns_types_and_comments(flights: Any, session: Session) -> None:
    described = session(flights.uri).sql("DESCRIBE TABLE fluss.sys.kinds").collect()

    assert [(row.col_name, row.data_type, row.comment) for row in described] == [
        ("id", "bigint", "Number of the row."),
        ("text", "string", "A STRING."),
        ("small", "int", "An INT."),
        ("big", "bigint", "A BIGINT."),
        ("real", "double", "A DOUBLE."),
        ("truth", "boolean", "A BOOLEAN."),
        ("moment", "timestamp", "A TIMESTAMP."),
        ("words", "array<string>", "An ARRAY."),
        ("parts", "array<struct<name:string,size:bigint>>", "An ARRAY of STRUCTs."),
        ("offsets", "map<string,bigint>", "A MAP."),
    ]


def test_a_data_table_and_a_namespace_are_described(flights: Any, session: Session) -> None:
    spark = session(flights.uri)
    described = {row.col_name: row.data_type for row in spark.sql("DESCRIBE TABLE EXTENDED fluss.DEMO.flights").collect()}
    namespaces = {row.info_name: row.info_value for row in spark.sql("DESCRIBE NAMESPACE fluss.sys").collect()}

    assert (described["flight"], described["carrier"]) == ("bigint", "string")
    assert (described["Name"], described["Comment"]) == ("fluss.demo.Flights", "All flights of 2013.")
    assert "bucket.num=4" in described["Table Properties"]
    assert namespaces["Namespace Name"] == "sys"


def test_every_type_and_null_arrives_as_it_was(flights: Any, session: Session) -> None:
    rows = session(flights.uri).sql("SELECT *, unix_micros(moment) AS us FROM fluss.sys.kinds").collect()

    for row, sent in zip(rows, KINDS, strict=True):
        assert (row.id, row.text, row.small, row.big, row.real, row.truth) == (
            *(sent.id, sent.text, sent.small, sent.big, sent.real, sent.truth),
        )
        assert row.us == (None if sent.moment is None else (sent.moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))
        assert row.words == (None if sent.words is None else list(sent.words))
        assert row.parts == (None if sent.parts is None else [(part.name, part.size) for part in sent.parts])
        assert row.offsets == sent.offsets


def test_a_table_without_rows_keeps_its_columns(flights: Any, session: Session) -> None:
    empty = session(flights.uri).table("fluss.sys.nothing")

    assert empty.collect() == []
    assert empty.columns == ["number", "text"]
    assert empty.count() == 0


def test_a_table_of_many_pieces_arrives_whole_and_in_order(flights: Any, session: Session) -> None:
    spark = session(flights.uri)

    rows = spark.sql("SELECT * FROM fluss.sys.many").collect()

    assert [row.number for row in rows] == list(range(5_000))
    assert sum(len(row.text) for row in rows) == 5_000 * 609 > 2 << 20
    assert spark.sql("SELECT count(*) AS n FROM fluss.sys.many").first().n == 5_000


def test_reading_a_system_table_starts_no_spark_job(flights: Any, session: Session, jobs: Jobs) -> None:
    spark = session(flights.uri)

    assert jobs(lambda: spark.sql("SELECT * FROM fluss.sys.many").collect()) == 0
    assert jobs(lambda: spark.sql("SELECT number FROM fluss.sys.many WHERE number >= 4990 AND text LIKE '0000%' LIMIT 3").collect()) == 0
    assert jobs(lambda: spark.sql("SHOW TABLES IN fluss.sys").collect()) == 0
    assert jobs(lambda: spark.sql("SELECT avg(number) FROM fluss.sys.many").collect()) > 0, "the counter counts nothing"


def test_one_statement_reads_a_table_once(flights: Any, session: Session) -> None:
    spark = session(flights.uri)

    spark.sql("SELECT text, count(*) FROM fluss.sys.kinds GROUP BY text ORDER BY text").collect()

    assert [read.name for read in flights.reads] == ["kinds"]


def test_names_are_case_insensitive(flights: Any, session: Session) -> None:
    spark = session(flights.uri)

    assert spark.sql("SELECT ID FROM fluss.SYS.Kinds WHERE Text = ''").first().ID == 3
    assert column_of(spark, "SHOW TABLES IN fluss.Demo", "tableName") == ["Flights"]
    assert spark.catalog.tableExists("fluss.SYS.KINDS")


def test_the_catalog_can_be_the_default_one(flights: Any, session: Session) -> None:
    spark = session(flights.uri)
    spark.conf.set("spark.sql.defaultCatalog", "fluss")

    assert spark.sql("SELECT count(*) AS n FROM sys.kinds").first().n == 3
    assert "kinds" in column_of(spark, "SHOW TABLES IN sys", "tableName")
    spark.sql("USE sys")
    assert spark.sql("SELECT id FROM kinds LIMIT 1").first().id == 1


def test_a_catalog_without_functions_of_its_own_lists_those_of_spark(flights: Any, session: Session) -> None:
    spark = session(flights.uri)
    spark.sql("USE fluss.sys")

    assert "date_trunc" in column_of(spark, "SHOW FUNCTIONS LIKE 'date*'", "function")
    assert column_of(spark, "SHOW USER FUNCTIONS IN fluss.demo", "function") == []
    assert column_of(spark, "SHOW USER FUNCTIONS IN fluss.default", "function") == []
    assert "[SCHEMA_NOT_FOUND] there is no namespace nope in the catalog fluss" in complaint(spark, "SHOW FUNCTIONS IN fluss.nope")
    assert "[UNRESOLVED_ROUTINE]" in complaint(spark, "SELECT nope(1)")


def test_a_table_added_in_python_is_seen_at_once(flights: Any, session: Session) -> None:
    spark = session(flights.uri)
    assert not spark.catalog.tableExists("fluss.sys.brand_new")

    flights.registry.add(tables=[numbers("brand_new", 2)])

    assert column_of(spark, "SELECT number FROM fluss.sys.brand_new", "number") == [0, 1]
    assert spark.catalog.tableExists("fluss.sys.brand_new")


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
    infos = [
        table_info(f"wide.t{number:04d}", table_id=number, properties={"comment": f"Table {number}."}) for number in range(LISTED_TABLES)
    ]
    server = serve(MemoryCoordinator(infos))
    connected = metadata(server.uri)
    server.lookups.clear()

    tables = read(jvm, connected.getTables(None, "wide", "%", None), 5)
    calls_of_tables = len(server.lookups)
    columns = read(jvm, connected.getColumns(None, "wide", "%", "%"), 4)
    calls_of_columns = len(server.lookups) - calls_of_tables
    columns_of_one = read(jvm, connected.getColumns(None, "wide", "t4999", "%"), 4)

    assert tables == [f"[,wide,t{number:04d},TABLE,Table {number}.]" for number in range(LISTED_TABLES)]
    assert columns_of_one == ["[null,wide,t4999,flight]", "[null,wide,t4999,carrier]"] == columns[-2:]
    assert len(columns) == LISTED_TABLES * 2
    assert max(calls_of_tables, calls_of_columns) <= PAGES + 1, (calls_of_tables, calls_of_columns)
    assert "[BIGINT,-5]" in read(jvm, connected.getTypeInfo(), 2)


def test_a_partition_column_is_listed_once_and_names_match_in_any_case(
    serve: Serve, metadata: Callable[[str], Any], jvm: SparkSession
) -> None:
    server = serve(MemoryCoordinator([table_info("Sales.Orders", partition_keys=("flight",))]))

    columns = read(jvm, metadata(server.uri).getColumns(None, "sales", "ORDERS", "%"), 6)

    assert columns == ["[null,Sales,Orders,flight,-5,BIGINT]", "[null,Sales,Orders,carrier,12,STRING]"]
