"""`sys` beside the databases of Spark's session catalog, and everything else as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.running.spark_sessions import complaint, sessions_started_with
from support.worlds.memory_coordinator import MemoryCoordinator, table_info, table_status
from tiering.cli.spark.properties import SESSION_CATALOG, SESSION_CATALOG_CLASS

Serve = Callable[..., Any]
Connect = Callable[..., SparkSession]
Jobs = Callable[[Callable[[], object]], int]
STATUS = "SELECT table_name, status FROM sys.lake_tiering_status"


@pytest.fixture
def server(serve: Serve) -> Any:
    return serve(MemoryCoordinator([table_info("demo.Flights")], [table_status("demo.Flights", status="Tiered")]))


@pytest.fixture
def connect(jvm: SparkSession) -> Iterator[Connect]:
    """Makes sessions whose session catalog shows `sys`; options by their names."""
    with sessions_started_with(jvm, SESSION_CATALOG, SESSION_CATALOG_CLASS) as make:
        yield lambda **options: make(options)


@pytest.fixture
def plain(jvm: SparkSession) -> Iterator[SparkSession]:
    """A session of the same Spark without any of this. What it left in the metastore goes."""
    spark = jvm.newSession()
    spark.sql("SELECT 1")  # the configuration of a session is read with its first statement
    yield spark
    for database in ("sys", "pink", "blue"):
        spark.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")


def column_of(spark: SparkSession, sql: str, name: str) -> list[Any]:
    return [row[name] for row in spark.sql(sql).collect()]


def test_sys_is_one_of_the_databases(server: Any, connect: Connect, jobs: Jobs) -> None:
    spark = connect(uri=server.uri)

    assert column_of(spark, "SHOW NAMESPACES", "namespace") == ["default", "sys"]
    assert [database.name for database in spark.catalog.listDatabases()] == ["default", "sys"]
    assert "lake_tiering_status" in column_of(spark, "SHOW TABLES IN sys", "tableName")
    assert "tables" in [table.name for table in spark.catalog.listTables("sys")]
    assert spark.catalog.tableExists("sys.tables")
    assert not spark.catalog.tableExists("sys.nope")
    assert spark.sql("DESCRIBE NAMESPACE sys").count() > 0
    assert ("Name", "spark_catalog.sys.tables") in [row[:2] for row in spark.sql("DESCRIBE TABLE EXTENDED sys.tables").collect()]
    assert spark.sql("SELECT status FROM SPARK_CATALOG.SYS.Lake_Tiering_Status WHERE status = 'Tiered'").collect() == [("Tiered",)]
    assert jobs(lambda: spark.sql(STATUS).collect()) == 0


def test_procedures_are_called_without_a_catalog_in_front(server: Any, connect: Connect) -> None:
    spark = connect(uri=server.uri)

    assert spark.sql("CALL sys.tier_table('demo.flights')").first().state == "EMPTY"
    assert spark.sql("CALL spark_catalog.sys.help('tier_table')").count() > 1
    assert "tier_table" in column_of(spark, "SHOW PROCEDURES IN sys", "procedure_name")
    assert column_of(spark, "SHOW PROCEDURES IN default", "procedure_name") == []
    assert "spark_catalog.default has no procedures: those of Lakeward are in spark_catalog.sys" in complaint(
        spark, "CALL tier_table('a.b')"
    )


def test_sys_can_be_the_current_database(server: Any, connect: Connect) -> None:
    spark = connect(uri=server.uri)
    spark.sql("CREATE TEMPORARY VIEW kept AS SELECT 1 AS one")

    spark.sql("USE sys")

    assert spark.sql("SELECT current_catalog(), current_database()").collect() == [("spark_catalog", "sys")]
    assert spark.sql("SELECT upper(status) AS s FROM lake_tiering_status JOIN kept ON one = 1").collect() == [("TIERED",)]
    assert spark.sql("CALL tier_table('demo.flights')").first().state == "EMPTY"
    spark.sql("USE default")
    assert "kept" in column_of(spark, "SHOW TABLES", "tableName")


STORY = [
    "CREATE DATABASE {db} COMMENT 'A test.'",
    "USE {db}",
    "SELECT current_database()",
    "CREATE TABLE t (a INT COMMENT 'An a.', b STRING) USING parquet PARTITIONED BY (b) COMMENT 'Mine.'",
    "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
    "SELECT * FROM {db}.t WHERE a > 1",
    "CREATE TABLE copy USING parquet AS SELECT a + 1 AS c FROM spark_catalog.{db}.t WHERE b = 'x'",
    "CREATE TABLE copy USING parquet AS SELECT 1",
    "CREATE VIEW v AS SELECT count(*) AS n FROM t",
    "CREATE TEMPORARY VIEW tv AS SELECT * FROM copy",
    "SELECT n, c FROM v CROSS JOIN tv",
    "CREATE FUNCTION plus(x INT) RETURNS INT RETURN x + 1",
    "SELECT plus(41), {db}.plus(1), nope(2)",
    "SELECT plus(41), {db}.plus(1)",
    "SHOW USER FUNCTIONS IN {db}",
    "ALTER TABLE t ADD COLUMN d INT",
    "ALTER TABLE t SET TBLPROPERTIES ('k' = 'v')",
    "ALTER TABLE copy RENAME TO {db}.moved",
    "SHOW TABLES IN {db}",
    "SHOW VIEWS IN {db}",
    "SHOW PARTITIONS t",
    "SHOW TBLPROPERTIES t ('k')",
    "DESCRIBE TABLE t",
    "SHOW CREATE TABLE t",
    "DESCRIBE DATABASE {db}",
    "SELECT * FROM {db}.nope",
    "SHOW TABLES IN nowhere",
    "USE nowhere",
    "DROP TABLE IF EXISTS nope",
    "TRUNCATE TABLE moved",
    "SELECT * FROM moved",
    "SELECT * FROM t VERSION AS OF 1",
    "DROP DATABASE {db}",
    "DROP VIEW v",
    "DROP TABLE t PURGE",
    "DROP DATABASE {db} CASCADE",
    "USE default",
    "SHOW TABLES LIKE 'tv'",
]


def statements_of_a_story(spark: SparkSession, database: str) -> list[tuple[str, object]]:
    """The story, each line with its rows or its error; the database is called DB."""
    lines: list[tuple[str, object]] = []
    for sql in STORY:
        try:
            rows = [[str(cell).replace(database, "DB") for cell in row] for row in spark.sql(sql.format(db=database)).collect()]
            lines.append((sql, rows))
        except Exception as error:  # whatever Spark raises has to be the same
            lines.append((sql, f"{type(error).__name__}: {str(error).splitlines()[0]}".replace(database, "DB")))
    return lines


def test_the_rest_is_as_without_lakeward_also_while_the_service_is_away(server: Any, connect: Connect, plain: SparkSession) -> None:
    spark = connect(uri=server.uri)
    assert spark.sql(STATUS).collect() == [("Flights", "Tiered")]
    server.stop()

    story = statements_of_a_story(spark, "blue")

    assert story == statements_of_a_story(plain, "pink")
    outcomes = dict(story)
    assert outcomes["SELECT n, c FROM v CROSS JOIN tv"] == [["2", "2"]], "the story is not one of errors only"
    assert column_of(spark, "SHOW NAMESPACES", "namespace") == ["default", "sys"]
    assert "no Lakeward service answers" in complaint(spark, STATUS)


def test_tables_and_views_of_the_session_catalog_meet_system_tables(server: Any, connect: Connect, plain: SparkSession) -> None:
    spark = connect(uri=server.uri)
    spark.sql("CREATE DATABASE blue")
    spark.sql("CREATE TABLE blue.seen USING parquet AS SELECT table_name, status FROM sys.lake_tiering_status")
    spark.sql("CREATE VIEW blue.late AS SELECT table_name FROM sys.lake_tiering_status WHERE status = 'Tiered'")
    joined = "SELECT s.status FROM blue.seen s JOIN blue.late l USING (table_name) JOIN sys.tables t USING (table_name)"

    assert spark.sql(joined).collect() == [("Tiered",)]
    assert connect(uri=server.uri).table("blue.late").collect() == [("Flights",)]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("INSERT INTO sys.tables VALUES (1)", "cannot write to spark_catalog.sys.tables: system tables are read-only"),
        ("DELETE FROM sys.tables", "cannot write to spark_catalog.sys.tables"),
        ("TRUNCATE TABLE sys.tables", "cannot truncate spark_catalog.sys.tables"),
        ("ALTER TABLE sys.tables ADD COLUMN a INT", "cannot alter spark_catalog.sys.tables"),
        ("DROP TABLE sys.tables", "cannot drop spark_catalog.sys.tables"),
        ("DROP DATABASE sys CASCADE", "cannot drop spark_catalog.sys"),
        ("ALTER DATABASE sys SET DBPROPERTIES ('a' = 'b')", "cannot alter spark_catalog.sys"),
        ("CREATE DATABASE sys", "[SCHEMA_ALREADY_EXISTS] Cannot create schema `sys`"),
        ("SELECT * FROM sys.nope", "[TABLE_OR_VIEW_NOT_FOUND] there is no system table spark_catalog.sys.nope"),
        ("SELECT * FROM sys.tables VERSION AS OF 1", "spark_catalog.sys.tables shows the present"),
        ("SELECT sys.f(1)", "Cannot resolve routine `sys`.`f`"),
        # Spark asks only its own catalog here; nothing is made or changed either.
        ("CREATE TABLE sys.t (a INT) USING parquet", "[SCHEMA_NOT_FOUND] The schema `spark_catalog`.`sys`"),
        ("CREATE VIEW sys.v AS SELECT 1", "[SCHEMA_NOT_FOUND] The schema `spark_catalog`.`sys`"),
        ("SHOW VIEWS IN sys", "[SCHEMA_NOT_FOUND] The schema `spark_catalog`.`sys`"),
    ],
)
def test_sys_is_read_only(sql: str, words: str, server: Any, connect: Connect) -> None:
    assert words in complaint(connect(uri=server.uri), sql)


@pytest.mark.parametrize(
    ("options", "words"), [({}, "set spark.sql.catalog.spark_catalog.uri to host:port"), ({"uri": "http://a"}, "'http://a'")]
)
def test_wrong_options_are_told_to_who_asks_for_sys_alone(options: dict[str, str], words: str, connect: Connect) -> None:
    spark = connect(**options)

    assert spark.sql("SHOW TABLES IN default").count() == 0
    assert "sys" in column_of(spark, "SHOW NAMESPACES", "namespace")
    for sql in (STATUS, "SHOW TABLES IN sys", "CALL sys.help()"):
        assert words in complaint(spark, sql)


def test_a_database_named_sys_stays_what_it_is_and_hides_ours(server: Any, connect: Connect, plain: SparkSession) -> None:
    plain.sql("CREATE DATABASE sys")
    plain.sql("CREATE TABLE sys.tables USING parquet AS SELECT 'mine' AS whose")
    spark = connect(uri=server.uri)

    assert column_of(spark, "SHOW NAMESPACES", "namespace") == ["default", "sys"]
    assert column_of(spark, "SHOW TABLES IN sys", "tableName") == ["tables"]
    assert spark.sql("SELECT * FROM sys.tables").collect() == [("mine",)]
    assert "TABLE_OR_VIEW_NOT_FOUND" in complaint(spark, STATUS)
    for sql in ("CALL sys.tier_table('demo.flights')", "SHOW PROCEDURES IN sys"):
        assert "spark_catalog.sys is a database of the session catalog's own, which hides Lakeward's" in complaint(spark, sql)

    spark.sql("DROP DATABASE sys CASCADE")
    assert spark.sql(STATUS).collect() == [("Flights", "Tiered")]
