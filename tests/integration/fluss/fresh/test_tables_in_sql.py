"""Databases and tables of a real Fluss cluster are created, changed and dropped in SQL; what Fluss refuses is refused with its reason.

Records that no lake can hold are put aside, seen and settled in SQL: TIMESTAMP(3) of Fluss holds times that microseconds do not reach.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support.clusters.fluss_tables import FlussTables
from support.fluss_client.unchecked_appends import append_unchecked
from support.lakes.lake_proof import lake_rows
from support.running.fluss_deployment import LAKE, FlussDeployment
from support.running.processes import wait_for
from support.running.spark_sessions import complaint
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.writing.writer import FlussWriter, fluss_writer
from tiering.model.tables import TableInfo, TablePath

NUMBERS = itertools.count()


@pytest.fixture
def database() -> str:
    """A name of its own for each run: a test of Fluss may run again (`support.running.fluss_health`)."""
    return f"sold_{next(NUMBERS)}"


@pytest.fixture(scope="module")
def writer(fluss: LocalFlussCluster) -> Iterator[FlussWriter]:
    """Shows the tables as the cluster has them."""
    with fluss_writer(FlussConnection.parse(fluss.bootstrap_servers)) as opened:
        yield opened


def test_a_table_of_fluss_is_created_changed_and_dropped(fresh_spark: SparkSession, writer: FlussWriter, database: str) -> None:
    spark, path = fresh_spark, TablePath(database, "orders")
    spark.sql(f"CREATE DATABASE fluss.{database}")
    spark.sql(
        f"CREATE TABLE fluss.{database}.orders (id BIGINT NOT NULL, qty INT, day STRING) PARTITIONED BY (day) COMMENT 'All orders.'"
        " TBLPROPERTIES ('primary.key' = 'id,day', 'bucket.num' = '2', 'table.datalake.enabled' = 'true',"
        " 'table.datalake.freshness' = '1 h')"
    )
    orders = writer.table(path)
    assert (orders.primary_key, orders.partition_keys, orders.bucket_count) == (("id", "day"), ("day",), 2)
    assert (orders.lake_enabled, orders.freshness_ms) == (True, 3_600_000)

    spark.sql(
        f"ALTER TABLE fluss.{database}.orders SET TBLPROPERTIES ('table.datalake.freshness' = '2 h', 'table.datalake.round.bytes' = '1 gb')"
    )
    spark.sql(f"ALTER TABLE fluss.{database}.orders UNSET TBLPROPERTIES ('table.datalake.freshness')")
    spark.sql(f"COMMENT ON TABLE fluss.{database}.orders IS 'Orders.'")
    spark.sql(f"ALTER TABLE fluss.{database}.orders ADD COLUMNS (note STRING, price DECIMAL(10, 2))")
    spark.sql(f"ALTER TABLE fluss.{database}.orders ADD PARTITION (day = '2024') PARTITION (day = '2025')")
    spark.sql(f"ALTER TABLE fluss.{database}.orders DROP PARTITION (day = '2024')")

    assert spark.table(f"fluss.{database}.orders").columns == ["id", "qty", "day", "note", "price"]
    assert [row[0] for row in spark.sql(f"SHOW PARTITIONS fluss.{database}.orders").collect()] == ["day=2025"]
    properties = dict(spark.sql(f"SHOW TBLPROPERTIES fluss.{database}.orders").collect())
    assert properties["table.datalake.round.bytes"] == "1 gb"
    assert properties["lake.freshness-ms"] == "180000"
    described = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE TABLE EXTENDED fluss.{database}.orders").collect()}
    assert described["Comment"] == "Orders."

    spark.sql(f"DROP TABLE fluss.{database}.orders")
    spark.sql(f"DROP DATABASE fluss.{database}")
    assert database not in writer.databases()


def test_fluss_decides_what_a_table_can_be(fresh_spark: SparkSession, writer: FlussWriter, database: str) -> None:
    spark = fresh_spark
    spark.sql(f"CREATE DATABASE fluss.{database}")
    spark.sql(f"CREATE TABLE fluss.{database}.t (id INT, name STRING) TBLPROPERTIES ('primary.key' = 'id')")
    refusals = {
        f"CREATE TABLE fluss.{database}.u (id INT) TBLPROPERTIES ('table.log.tttl' = '1 d')": "did you mean table.log.ttl?",
        f"CREATE TABLE fluss.{database}.u (id INT COMMENT 'x')": "has a comment, which Fluss's client for Python cannot send",
        f"ALTER TABLE fluss.{database}.t SET TBLPROPERTIES ('table.log.ttl' = '1 d')": "Fluss cannot alter the option 'table.log.ttl'",
        f"ALTER TABLE fluss.{database}.t ADD COLUMN x INT COMMENT 'x'": "the column 'x' has a comment",
        f"ALTER TABLE fluss.{database}.t ADD COLUMN x STRUCT<y: INT COMMENT 'x'>": "the column 'y' has a comment",
        f"ALTER TABLE fluss.{database}.t DROP COLUMN name": "Fluss can only add columns",
        f"ALTER TABLE fluss.{database}.t RENAME COLUMN name TO label": "Fluss can only add columns",
        f"ALTER TABLE fluss.{database}.t ADD COLUMN x INT FIRST": "Fluss can only add columns",
        f"DROP DATABASE fluss.{database}": f"the database {database} is not empty: it has t",
    }
    for sql, reason in refusals.items():
        assert reason in complaint(spark, sql), sql
    assert writer.table(TablePath(database, "t")).schema.names == ["id", "name"]
    spark.sql(f"DROP DATABASE fluss.{database} CASCADE")
    assert database not in writer.databases()


def test_show_create_table_creates_the_same_table_in_fluss(fresh_spark: SparkSession, writer: FlussWriter, database: str) -> None:
    spark = fresh_spark
    spark.sql(f"CREATE DATABASE fluss.{database}")
    spark.sql(
        f"CREATE TABLE fluss.{database}.t (id INT, region STRING, amount DECIMAL(12, 3), at TIMESTAMP)"
        " PARTITIONED BY (region) COMMENT 'It''s one.'"
        " TBLPROPERTIES ('primary.key' = 'id,region', 'bucket.num' = '3', 'table.log.ttl' = '3 d', 'table.datalake.enabled' = 'true')"
    )
    [statement] = spark.sql(f"SHOW CREATE TABLE fluss.{database}.t").first()  # type: ignore[misc]
    first = writer.table(TablePath(database, "t"))
    spark.sql(f"DROP TABLE fluss.{database}.t")
    spark.sql(statement)
    second = writer.table(TablePath(database, "t"))

    assert (first.schema, first.properties, first.bucket_keys) == (second.schema, second.properties, second.bucket_keys)
    assert (first.primary_key, first.partition_keys, first.bucket_count) == (second.primary_key, second.partition_keys, second.bucket_count)
    spark.sql(f"DROP DATABASE fluss.{database} CASCADE")


FAR_TIMES = pa.schema([pa.field("id", pa.int64()), pa.field("at", pa.timestamp("ms"))])
FAR = 2**63 - 1
"""Milliseconds since 1970 that no number of microseconds in 64 bits reaches."""
LETTERS = "SELECT offset, status, column_name FROM fluss.sys.dead_letters WHERE table_name = 'far_times' ORDER BY offset"


def append(service: FlussDeployment, tables: FlussTables, table: TableInfo, first: int, times: list[int]) -> None:
    """Rows from the id `first` on, one for each time."""
    ids = pa.array(range(first, first + len(times)), pa.int64())
    tables.append(table, [pa.RecordBatch.from_arrays([ids, pa.array(times, pa.int64()).view(pa.timestamp("ms"))], schema=FAR_TIMES)])
    service.wrote()


def ids_in_lake(service: FlussDeployment, table: TableInfo) -> list[int]:
    service.wait_tiered(table.path)
    return sorted(lake_rows(service.data.lake_properties, table.path)["id"].to_pylist())


def test_records_that_no_lake_can_hold_are_put_aside_seen_and_discarded(
    fresh_spark: SparkSession, service: FlussDeployment, tables: FlussTables
) -> None:
    def answer(sql: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in fresh_spark.sql(sql).collect()]

    table = tables.create("far_times", FAR_TIMES, properties=LAKE)
    wait_for("the coordinator knows the table", lambda: service.visible_tables().get(table.path) == table.table_id)
    answer("CALL fluss.sys.set_table_option('sales.far_times', 'table.datalake.on-bad-record', 'dead-letter')")
    append(service, tables, table, 0, [1, 2, FAR, 4, FAR, 6])
    assert ids_in_lake(service, table) == [0, 1, 3, 5]
    assert answer(LETTERS) == [(2, "waiting", "at"), (4, "waiting", "at")]
    [(error, next_action)] = answer("SELECT last_error, next_action FROM fluss.sys.lake_tiering_status WHERE table_name = 'far_times'")
    assert (error, next_action) == (None, "CALL fluss.sys.replay_dead_letters('sales.far_times', dry_run => true)")

    [refused] = fresh_spark.sql("CALL fluss.sys.replay_dead_letters('sales.far_times')").collect()
    assert (refused.outcome, refused.rows_replayed, refused.rows_refused) == ("nothing_to_replay", 0, 2)
    assert "the log cannot give it" in refused.refusal

    [done] = fresh_spark.sql(
        "CALL fluss.sys.discard_dead_letters('sales.far_times', reason => 'a broken clock', where => 'offset = 2')"
    ).collect()
    assert (done.outcome, done.records_discarded) == ("discarded", 1)
    assert answer(LETTERS) == [(2, "discarded", "at"), (4, "waiting", "at")]
    append(service, tables, table, 6, [7, FAR, 9])
    assert ids_in_lake(service, table) == [0, 1, 3, 5, 6, 8]
    assert answer(LETTERS) == [(2, "discarded", "at"), (4, "waiting", "at"), (7, "waiting", "at")]
    assert {row.ok for row in fresh_spark.sql("CALL fluss.sys.validate_table('sales.far_times', level => 'rows')").collect()} == {True}
    tables.drop(table)


PLACE = pa.field("place", pa.struct([pa.field("street", pa.string(), nullable=False)]))


def test_a_nested_null_of_a_not_null_column_is_put_aside(fresh_spark: SparkSession, service: FlussDeployment, tables: FlussTables) -> None:
    """A client that checks no values can write it. The lake's column is NOT NULL, too."""
    table = tables.add_column(tables.create("places", pa.schema([("id", pa.int64())]), properties=LAKE), PLACE)
    wait_for("the coordinator knows the table", lambda: service.visible_tables().get(table.path) == table.table_id)
    fresh_spark.sql("CALL fluss.sys.set_table_option('sales.places', 'table.datalake.on-bad-record', 'dead-letter')")
    places = pa.StructArray.from_arrays([pa.array(["here", None, "there"])], fields=[*PLACE.type])
    first = append_unchecked(tables, table, pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), places], schema=table.schema), schema_id=2)
    service.wrote()
    assert (first, ids_in_lake(service, table)) == (0, [1, 3])
    [letter] = fresh_spark.sql("SELECT * FROM fluss.sys.dead_letters WHERE table_name = 'places'").collect()
    assert (letter.offset, letter.status, letter.column_name) == (1, "waiting", "place.street")
    assert {row.ok for row in fresh_spark.sql("CALL fluss.sys.validate_table('sales.places', level => 'rows')").collect()} == {True}
    tables.drop(table)


COUNTS = pa.map_(pa.string(), pa.int32())
FAR_DAY = 2**31 - 1
"""Days since 1970, in the year 5,881,580."""


def test_a_map_with_a_key_twice_and_a_day_of_any_year_are_no_dead_letters(
    fresh_spark: SparkSession, service: FlussDeployment, tables: FlussTables
) -> None:
    """Fluss accepts them, and Iceberg holds them as they are."""
    table = tables.create("visits", pa.schema([("id", pa.int64()), ("counts", COUNTS), ("day", pa.date32())]), properties=LAKE)
    wait_for("the coordinator knows the table", lambda: service.visible_tables().get(table.path) == table.table_id)
    fresh_spark.sql("CALL fluss.sys.set_table_option('sales.visits', 'table.datalake.on-bad-record', 'dead-letter')")
    twice = [("a", 1), ("a", 2)]
    days = pa.array([1, 1, FAR_DAY], pa.int32()).view(pa.date32())
    columns = [pa.array(range(3), pa.int64()), pa.array([[("a", 1)], twice, []], COUNTS), days]
    tables.append(table, [pa.RecordBatch.from_arrays(columns, schema=table.schema)])
    service.wrote()
    service.wait_tiered(table.path)
    rows = lake_rows(service.data.lake_properties, table.path)
    in_lake = zip(*(rows[name].to_pylist() for name in ("id", "counts")), rows["day"].cast(pa.int32()).to_pylist(), strict=True)
    assert sorted(in_lake) == [(0, [("a", 1)], 1), (1, twice, 1), (2, [], FAR_DAY)]
    assert fresh_spark.sql("SELECT * FROM fluss.sys.dead_letters WHERE table_name = 'visits'").collect() == []
    tables.drop(table)
