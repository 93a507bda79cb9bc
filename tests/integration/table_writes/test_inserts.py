"""INSERT INTO through the plugin: the rows are in the log when the statement ends."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from support.running.cluster_of_processes import Deployment
from support.running.spark_sessions import complaint
from tiering.model.tables import TablePath

EVERY_TYPE = pa.schema(
    [
        pa.field("truth", pa.bool_()),
        pa.field("tiny", pa.int8()),
        pa.field("small", pa.int16()),
        pa.field("number", pa.int32()),
        pa.field("id", pa.int64()),
        pa.field("real", pa.float32()),
        pa.field("double", pa.float64()),
        pa.field("price", pa.decimal128(38, 9)),
        pa.field("cents", pa.decimal128(5, 2)),
        pa.field("text", pa.string()),
        pa.field("bytes", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("times", pa.list_(pa.timestamp("us", tz="UTC"))),
        pa.field("attributes", pa.map_(pa.string(), pa.decimal128(9, 3))),
        pa.field("place", pa.struct([pa.field("x", pa.int32()), pa.field("seen", pa.map_(pa.int64(), pa.timestamp("us", tz="UTC")))])),
    ]
)
A_ROW = """true, 1Y, -2S, 3, 4L, 1.5F, -2.5D, 12345678901234567890123456789.123456789, 999.99, 'grüße ✓', X'00FF', DATE '2026-03-01',
TIMESTAMP '2026-03-01 12:00:00.123456', TIMESTAMP_NTZ '0001-01-01 00:00:00', array('a', NULL),
array(TIMESTAMP '1969-12-31 23:59:59.999999'), map('k', 1.5, 'n', NULL), struct(7, map(1L, TIMESTAMP '2026-01-01 00:00:00'))"""


def rows(spark: SparkSession, statement: str) -> list[Row]:
    return spark.sql(statement).collect()


@pytest.fixture(scope="module")
def orders(service: Deployment) -> str:
    """A log table with the columns `id` and `text`."""
    service.create(TablePath("sales", "orders"), freshness="1 h")
    return "fluss.sales.orders"


@pytest.fixture(scope="module")
def stock(service: Deployment) -> str:
    """A primary-key table with the columns `id` and `text`."""
    service.create_keyed(TablePath("sales", "stock"))
    return "fluss.sales.stock"


def test_rows_of_a_log_table_are_appended_and_seen_at_once(spark: SparkSession, orders: str) -> None:
    spark.sql(f"INSERT INTO {orders} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"INSERT INTO {orders} (text) VALUES ('no id')")
    spark.sql(f"INSERT INTO {orders} (text, id) SELECT 'named', 3")
    spark.sql(f"INSERT INTO {orders} SELECT id, 'many' FROM range(1000, 201000, 1, 3)")

    assert rows(spark, f"SELECT * FROM {orders} WHERE text <> 'many' ORDER BY id") == [(None, "no id"), (1, "a"), (2, "b"), (3, "named")]
    assert rows(spark, f"SELECT count(*), count(DISTINCT id) FROM {orders} WHERE text = 'many'") == [(200_000, 200_000)]


def test_a_statement_that_reads_its_own_table_reads_one_moment(spark: SparkSession, service: Deployment) -> None:
    service.create(TablePath("sales", "doubled"), freshness="1 h")
    spark.sql("INSERT INTO fluss.sales.doubled SELECT id, 'x' FROM range(100000)")

    spark.sql("INSERT INTO fluss.sales.doubled SELECT * FROM fluss.sales.doubled")

    assert rows(spark, "SELECT count(*), count(DISTINCT id) FROM fluss.sales.doubled") == [(200_000, 100_000)]


def test_a_row_of_a_primary_key_table_replaces_the_row_of_its_key(spark: SparkSession, stock: str) -> None:
    spark.sql(f"INSERT INTO {stock} VALUES (1, 'old'), (2, 'old')")
    spark.sql(f"INSERT INTO {stock} (id) VALUES (2)")
    spark.sql(f"INSERT INTO {stock} VALUES (1, 'new'), (3, 'new')")

    assert rows(spark, f"SELECT * FROM {stock} ORDER BY id") == [(1, "new"), (2, None), (3, "new")]


def test_every_type_is_stored_as_it_is(spark: SparkSession, service: Deployment) -> None:
    for name in ("typed", "typed_copy"):
        service.create(TablePath("sales", name), freshness="1 h", schema=EVERY_TYPE)
    nulls = ", ".join(["NULL"] * len(EVERY_TYPE))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        spark.sql(f"INSERT INTO fluss.sales.typed VALUES ({A_ROW}), ({nulls})")
        spark.sql("INSERT INTO fluss.sales.typed_copy SELECT * FROM fluss.sales.typed")

        [expected] = rows(spark, f"SELECT {A_ROW}")
        [row] = rows(spark, "SELECT * FROM fluss.sales.typed_copy WHERE id IS NOT NULL")
        [empty] = rows(spark, "SELECT * FROM fluss.sales.typed_copy WHERE id IS NULL")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    differing = {
        column: (value, expected_value)
        for column, value, expected_value in zip(row.__fields__, row, expected, strict=True)
        if value != expected_value
    }
    assert set(differing) <= {"attributes", "place"}  # a literal's decimals and the names of a struct's fields differ
    assert row.attributes == {"k": Decimal("1.500"), "n": None}
    assert tuple(row.place) == tuple(expected[-1])
    assert (row.day, row.cents) == (date(2026, 3, 1), Decimal("999.99"))
    assert tuple(empty) == (None,) * len(EVERY_TYPE)


def test_data_frames_are_written_by_name_and_by_position(spark: SparkSession, service: Deployment) -> None:
    service.create(TablePath("sales", "framed"), freshness="1 h")
    frame = spark.sql("SELECT 'by name' AS text, 1L AS id")

    frame.writeTo("fluss.sales.framed").append()
    frame.selectExpr("2L AS a", "'by position' AS b").write.insertInto("fluss.sales.framed")
    frame.selectExpr("text", "3L AS id").write.mode("append").saveAsTable("fluss.sales.framed")

    assert rows(spark, "SELECT * FROM fluss.sales.framed ORDER BY id") == [(1, "by name"), (2, "by position"), (3, "by name")]


def test_a_partition_is_created_by_its_first_row(spark: SparkSession, service: Deployment) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.date32(), nullable=False)])
    service.create(TablePath("sales", "by_day"), freshness="1 h", schema=schema, partition_keys=("day",))

    spark.sql("INSERT INTO fluss.sales.by_day SELECT id, date_add(DATE '2026-01-01', int(id % 3)) FROM range(30000)")
    spark.sql("INSERT INTO fluss.sales.by_day PARTITION (day = '2026-02-01') VALUES (7)")

    counts = rows(spark, "SELECT string(day), count(*) FROM fluss.sales.by_day GROUP BY day ORDER BY day")
    assert counts == [("2026-01-01", 10_000), ("2026-01-02", 10_000), ("2026-01-03", 10_000), ("2026-02-01", 1)]


def test_names_may_be_words_of_sql(spark: SparkSession, service: Deployment) -> None:
    schema = pa.schema([pa.field(name, pa.int64()) for name in ("order", "a-b", "1st", "Select")])
    service.create(TablePath("sales", "odd-names"), freshness="1 h", schema=schema)

    spark.sql("INSERT INTO fluss.sales.`odd-names` (`a-b`, `order`, `1st`) VALUES (1, 2, 3)")

    assert rows(spark, "SELECT * FROM fluss.sales.`odd-names`") == [(2, 1, 3, None)]


def test_create_table_as_select_writes_the_rows(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE fluss.sales.from_query TBLPROPERTIES ('bucket.num' = '2') AS SELECT id, string(id) AS text FROM range(0, 5000, 1, 2)"
    )

    assert rows(spark, "SELECT count(*), count(DISTINCT id), max(text) FROM fluss.sales.from_query") == [(5_000, 5_000, "999")]


def test_rows_behind_a_shuffle_have_the_same_order_each_time(spark: SparkSession, service: Deployment) -> None:
    for name, query in {
        "by_columns": "SELECT /*+ REPARTITION(1) */ 100 - id, 'x' FROM range(0, 100, 1, 3)",
        "by_order": "SELECT id % 10, string(id) FROM range(0, 100, 1, 3) ORDER BY 1 DESC LIMIT 30",
    }.items():
        service.create(TablePath("sales", name), freshness="1 h", buckets=1)
        spark.sql(f"INSERT INTO fluss.sales.{name} {query}")

    logs = {
        name: [tuple(row) for row in rows(spark, f"SELECT id, text FROM fluss.sales.`{name}$changelog` ORDER BY _log_offset")]
        for name in ("by_columns", "by_order")
    }
    assert logs["by_columns"] == [(number, "x") for number in range(1, 101)]
    assert logs["by_order"] == sorted(logs["by_order"], key=lambda row: (-row[0], row[1]))
    assert len(logs["by_order"]) == 30


def test_no_rows_are_no_write(spark: SparkSession, service: Deployment) -> None:
    service.create(TablePath("sales", "empty"), freshness="1 h")

    spark.sql("INSERT INTO fluss.sales.empty SELECT id, '' FROM range(10) WHERE id > 10")

    assert rows(spark, "SELECT count(*) FROM fluss.sales.empty") == [(0,)]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO {stock} VALUES (CAST(NULL AS BIGINT), 'c')", "id"),
        ("INSERT INTO {stock} (text) VALUES ('c')", "`id`"),
        ("INSERT INTO {stock} VALUES ('x', 'c')", 'Cannot safely cast `id` "STRING" to "BIGINT"'),
        ("INSERT INTO {stock} VALUES (1)", "not enough data columns"),
        ("INSERT INTO {stock} VALUES (9999999999999999999, 'c')", "CAST_OVERFLOW"),
        ("INSERT OVERWRITE {stock} VALUES (1, 'c')", "cannot overwrite rows of fluss.sales.stock: the log of the table keeps what it has"),
        ("UPDATE {stock} SET text = 'x' WHERE id = 1", "INSERT INTO replaces the row of each key"),
        ("TRUNCATE TABLE {stock}", "cannot truncate fluss.sales.stock: rows are removed by their keys alone"),
        ("INSERT INTO fluss.sales.`stock$lake` VALUES (1, 'c')", "this name is for reading only. Write to fluss.sales.stock"),
        ("INSERT INTO fluss.sales.`stock$changelog` VALUES (1, 'c')", "this name is for reading only. Write to fluss.sales.stock"),
        ("INSERT INTO fluss.sales.nothing VALUES (1)", "TABLE_OR_VIEW_NOT_FOUND"),
    ],
)
def test_what_cannot_be_written_is_refused_before_a_row_is_written(spark: SparkSession, stock: str, statement: str, expected: str) -> None:
    before = rows(spark, f"SELECT count(*) FROM {stock}")

    assert expected in complaint(spark, statement.format(stock=stock), PySparkException)

    assert rows(spark, f"SELECT count(*) FROM {stock}") == before
