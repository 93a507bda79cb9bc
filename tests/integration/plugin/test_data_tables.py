"""The lake copies of data tables in the catalog `fluss`: described by the service, read from a real Iceberg lake, never written.

In most tests the option `plain-name` is `lake`, so plain names mean the lake copy. The last tests describe the names of the default.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

from support.lakes.lake_kit import COLUMNS, LakeKit, bucket
from support.worlds.memory_coordinator import NOON, MemoryCoordinator, table_info, table_status
from tiering.cli.spark.properties import lake_properties_for_spark
from tiering.model.tables import SnapshotRetention, TableInfo

Serve = Callable[..., Any]
Session = Callable[..., SparkSession]
ROWS = 100
LATE = pa.field("late", pa.string())


@dataclass
class Shop:
    """`sales.orders` with `ROWS` rows of two buckets in the lake, `sales.fresh` not there yet, `sales.plain` never to be."""

    lake: LakeKit
    orders: TableInfo
    coordinator: MemoryCoordinator
    server: Any
    spark: SparkSession

    def rows(self, sql: str) -> list[Row]:
        return self.spark.sql(sql).collect()

    def describe_orders(self, **changes: Any) -> None:
        """The source has it so from now on; the lake, only after a round."""
        self.coordinator.infos = [described(self.orders, **changes), *list(self.coordinator.infos)[1:]]


def described(table: TableInfo, **changes: Any) -> TableInfo:
    """`table` as the source describes it."""
    schema = changes.pop("schema", table.schema)
    commented = [field.with_metadata({"comment": f"The {field.name}."}) for field in schema]
    values: dict[str, Any] = {
        "table_id": table.table_id,
        "schema": pa.schema(commented),
        "bucket_count": 2,
        "bucket_keys": ("id",),
        "primary_key": ("id",),
        "properties": {"comment": "All orders.", "table.datalake.freshness": "30 s", "s3.secret-key": "hunter2"},
        "freshness_ms": 30_000,
        "snapshot_retention": SnapshotRetention(6 * 3_600_000, 10),
    }
    return table_info(str(table.path), **(values | changes))


@pytest.fixture
def shop(serve: Serve, session: Session, tmp_path: Path) -> Shop:
    lake = LakeKit(tmp_path)
    orders = lake.table()
    lake.tier(orders, "round-1", {bucket(0): ROWS // 2, bucket(1): ROWS // 2})
    infos = [described(orders), table_info("sales.fresh"), table_info("sales.plain", lake_enabled=False), table_info("sales.Lost")]
    statuses = [
        table_status("sales.orders", status="Tiered", lag_ms=1_500, last_tiered_time=NOON),
        table_status("sales.fresh"),
        table_status("sales.Lost", last_tiered_time=NOON),
    ]
    coordinator = MemoryCoordinator(infos, statuses)
    server = serve(coordinator)
    spark = session(server.uri, lake="lake", plain_name="lake")
    for name, value in lake_properties_for_spark(lake.properties).items():
        if name.startswith("spark.sql.catalog."):
            spark.conf.set(name, value)
    return Shop(lake, orders, coordinator, server, spark)


def complaint(spark: SparkSession, sql: str) -> str:
    with pytest.raises(AnalysisException) as raised:
        spark.sql(sql).collect()
    message = str(raised.value)
    assert len(message.splitlines()) == 1, message
    return message


def test_a_table_is_read_as_the_source_has_it(shop: Shop) -> None:
    rows = shop.spark.table("fluss.SALES.Orders").orderBy("id").toArrow()

    expected = pa.Table.from_batches([shop.lake.rows(shop.orders, bucket(number), 0, ROWS // 2) for number in (0, 1)]).sort_by("id")
    assert rows.column_names == COLUMNS.names
    assert rows.cast(COLUMNS).equals(expected.select(COLUMNS.names))


def test_what_the_lake_has_beside_the_sources_columns_can_be_asked_for(shop: Shop) -> None:
    rows = shop.rows("SELECT o.__bucket, o.__offset, o.id FROM fluss.sales.orders o WHERE __offset >= 48 AND id > 0 ORDER BY id")

    assert rows == [(0, 48, 480), (1, 48, 481), (0, 49, 490), (1, 49, 491)]


def test_filters_and_counts_are_handed_to_the_lake(shop: Shop) -> None:
    [filtered] = shop.rows("EXPLAIN SELECT name FROM fluss.sales.orders WHERE id > 3")
    [counted] = shop.rows("EXPLAIN SELECT count(*) FROM fluss.sales.orders")

    assert "IcebergScan(table=lake.sales.orders" in filtered.plan
    assert "filters=id > 3" in filtered.plan
    assert "LocalTableScan" in counted.plan
    assert shop.rows("SELECT count(*) AS n, sum(id) AS s FROM fluss.sales.orders WHERE id >= 400") == [
        (20, sum(range(400, 500, 10)) * 2 + 10)
    ]


def test_a_description_has_keys_buckets_freshness_and_place(shop: Shop) -> None:
    extended = shop.rows("DESCRIBE TABLE EXTENDED fluss.sales.orders")
    described = {row.col_name: row.data_type for row in extended}

    assert [(row.col_name, row.data_type, row.comment) for row in extended[:3]] == [
        ("id", "bigint", "The id."),
        ("name", "string", "The name."),
        ("small", "int", "The small."),
    ]
    assert (described["Name"], described["Comment"], described["Provider"]) == ("fluss.sales.orders", "All orders.", "iceberg")
    assert re.search(r"/lake/sales/orders-[0-9a-f]{12}$", described["Location"])
    assert described["primary_key"] == "PRIMARY KEY (id) NOT ENFORCED"
    assert {"__bucket", "__offset", "__timestamp"} <= set(described)
    properties = dict(shop.rows("SHOW TBLPROPERTIES fluss.sales.orders"))
    assert {name: properties[name] for name in ("bucket.num", "bucket.key", "primary.key", "lake.freshness-ms", "lake.lag-ms")} == {
        "bucket.num": "2",
        "bucket.key": "id",
        "primary.key": "id",
        "lake.freshness-ms": "30000",
        "lake.lag-ms": "1500",
    }
    assert (properties["lake.status"], properties["lake.table"]) == ("Tiered", "lake.sales.orders")
    assert properties["lake.last-tiered-time"] == "2026-03-01T12:00:00+00:00"
    assert "hunter2" not in str(extended) + str(properties)
    shop.describe_orders(partition_keys=("name",))
    partitioned = [row.col_name for row in shop.rows("DESCRIBE TABLE fluss.sales.orders")]
    assert partitioned[partitioned.index("# Partition Information") + 2] == "name"


def test_rows_that_were_just_tiered_are_seen_also_by_a_data_frame_of_before(shop: Shop) -> None:
    before = shop.spark.table("fluss.sales.orders")
    shop.spark.sql("CREATE TEMPORARY VIEW big AS SELECT * FROM fluss.sales.orders WHERE id >= 400")
    assert (before.count(), shop.spark.table("big").count()) == (ROWS, 20)

    shop.lake.tier(shop.orders, "round-2", {bucket(0): ROWS, bucket(1): ROWS})

    assert shop.rows("SELECT count(*) AS n FROM fluss.sales.orders a JOIN fluss.sales.orders b USING (id)") == [(2 * ROWS,)]
    assert (before.count(), shop.spark.table("big").count()) == (2 * ROWS, ROWS + 20)


def test_a_moment_of_the_past_is_read_with_the_columns_it_had(shop: Shop) -> None:
    [first] = shop.rows("SELECT snapshot_id, committed_at FROM lake.sales.orders.snapshots")
    added = replace(shop.orders, schema=shop.orders.schema.append(LATE), added_columns=("late",))
    shop.lake.lake.ensure_table(added)
    shop.lake.user_appends(shop.orders)
    shop.describe_orders(schema=added.schema)

    assert shop.spark.table("fluss.sales.orders").columns == [*COLUMNS.names, "late"]
    for then in (f"VERSION AS OF {first.snapshot_id}", f"TIMESTAMP AS OF '{first.committed_at}'", "VERSION AS OF 'lakeward-tiered'"):
        past = shop.spark.sql(f"SELECT * FROM fluss.sales.orders {then}")
        assert (past.columns[:3], past.count()) == (COLUMNS.names, ROWS), then
    assert shop.spark.read.option("versionAsOf", first.snapshot_id).table("fluss.sales.orders").columns == COLUMNS.names


def test_a_column_that_is_not_in_the_lake_yet_is_said_to_be_missing(shop: Shop) -> None:
    shop.describe_orders(schema=shop.orders.schema.append(LATE))

    assert shop.spark.table("fluss.sales.orders").columns == COLUMNS.names
    assert dict(shop.rows("SHOW TBLPROPERTIES fluss.sales.orders"))["lake.missing-columns"] == "late"


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM fluss.sales.fresh", ["fluss.sales.fresh", "not in the lake yet", "CALL sys.tier_table('sales.fresh')"]),
        ("SELECT * FROM fluss.sales.plain", ["fluss.sales.plain", "its lake is disabled", "table.datalake.enabled=true"]),
        (
            "SELECT * FROM fluss.sales.lost",
            ["fluss.sales.Lost", "was tiered at 2026-03-01T12:00:00", "lakeward lake-conf"],
        ),
        ("SELECT * FROM fluss.sales.fresh TIMESTAMP AS OF '2026-01-01'", ["fluss.sales.fresh", "not in the lake yet"]),
        ("SELECT * FROM fluss.sales.orders VERSION AS OF 5", ["fluss.sales.orders", "ID 5", "SELECT * FROM lake.sales.orders.snapshots"]),
        (
            "SELECT * FROM fluss.sales.orders TIMESTAMP AS OF '2001-01-01'",
            ["older than 2001-01-01", "are kept for 6 h (its option table.datalake.snapshot.max-age)", "lake.sales.orders.snapshots"],
        ),
        ("SELECT * FROM fluss.sys.tables VERSION AS OF 5", ["fluss.sys.tables shows the present"]),
    ],
)
def test_what_cannot_be_read_says_why_and_what_to_do(sql: str, words: list[str], shop: Shop) -> None:
    message = complaint(shop.spark, sql)

    assert [word for word in words if word not in message] == [], message


def test_a_copy_in_paimon_is_no_table_of_that_name_in_the_iceberg_catalog(shop: Shop) -> None:
    assert shop.rows("SELECT count(*) FROM lake.sales.orders") == [(ROWS,)]
    shop.describe_orders(lake_format="paimon")
    for sql in ("SELECT * FROM fluss.sales.orders", "SELECT * FROM fluss.sales.orders VERSION AS OF 1"):
        message = complaint(shop.spark, sql)
        words = ["org.apache.paimon:paimon-spark-", "on its class path", "runs with `lakeward sql --engine duckdb`"]
        assert [word for word in words if word not in message] == [], message


def test_a_table_without_rows_to_read_is_described_all_the_same(shop: Shop) -> None:
    described = {row.col_name: row.data_type for row in shop.rows("DESCRIBE TABLE EXTENDED fluss.sales.fresh")}

    assert (described["flight"], described["carrier"]) == ("bigint", "string")
    assert "lake.unreadable=sales.fresh is not in the lake yet" in described["Table Properties"]
    assert shop.spark.table("fluss.sales.fresh").columns == ["flight", "carrier"]
    assert shop.spark.catalog.tableExists("fluss.sales.plain")


@pytest.mark.parametrize(
    ("lake", "words"),
    [
        (None, ["the option spark.sql.catalog.fluss.lake does not say"]),
        ("nowhere", ["spark.sql.catalog.fluss.lake names the catalog nowhere", "does not have"]),
        ("fluss", ["spark.sql.catalog.fluss.lake names the catalog fluss", "not a lake's own"]),
        ("broken", ["spark.sql.catalog.fluss.lake names the catalog broken", "does not start"]),
    ],
)
def test_a_lake_that_is_not_named_rightly_is_an_error_that_names_the_option(
    lake: str | None, words: list[str], shop: Shop, session: Session
) -> None:
    spark = session(shop.server.uri, plain_name="lake", **({} if lake is None else {"lake": lake}))
    spark.conf.set("spark.sql.catalog.broken", "com.example.NoSuchCatalog")

    message = complaint(spark, "SELECT * FROM fluss.sales.orders")

    assert [word for word in [*words, "cannot read fluss.sales.orders", "lakeward lake-conf"] if word not in message] == [], message
    assert "Name" in {row.col_name for row in spark.sql("DESCRIBE TABLE EXTENDED fluss.sales.orders").collect()}


def test_a_lake_that_goes_away_is_named_to_a_data_frame_of_before(shop: Shop) -> None:
    before = shop.spark.table("fluss.sales.orders")
    assert before.count() == ROWS

    (shop.lake.folder / "lake" / "sales").rename(shop.lake.folder / "lake" / "hidden")

    with pytest.raises(AnalysisException, match=r"cannot read fluss.sales.orders: the lake's catalog lake cannot open sales.orders"):
        before.count()


def test_a_cached_table_is_found_again(shop: Shop) -> None:
    shop.spark.sql("CACHE TABLE fluss.sales.orders")
    try:
        assert shop.spark.catalog.isCached("fluss.sales.orders")
        [plan] = shop.rows("EXPLAIN SELECT id FROM fluss.sales.orders")
        assert "Scan In-memory table fluss.sales.orders" in plan.plan
    finally:
        shop.spark.sql("UNCACHE TABLE fluss.sales.orders")


@pytest.fixture
def default_shop(shop: Shop, session: Session) -> Shop:
    """`shop` in a session without the option `plain-name`. The service has no reads, so no test with it may open a read."""
    spark = session(shop.server.uri, lake="lake")
    for name, value in lake_properties_for_spark(shop.lake.properties).items():
        if name.startswith("spark.sql.catalog."):
            spark.conf.set(name, value)
    return replace(shop, spark=spark)


def test_the_default_describes_a_table_with_its_lake_copy_and_the_types_of_the_source(default_shop: Shop) -> None:
    shop = default_shop
    shop.describe_orders(schema=shop.orders.schema.append(LATE), partition_keys=("name",))
    extended = shop.rows("DESCRIBE TABLE EXTENDED fluss.sales.orders")
    described = {row.col_name: row.data_type for row in extended}
    properties = dict(shop.rows("SHOW TBLPROPERTIES fluss.sales.orders"))

    assert shop.spark.table("fluss.sales.orders").schema.simpleString() == "struct<id:bigint,name:string,small:smallint,late:string>"
    assert extended[0].comment == "The id."
    assert (described["Name"], described["Comment"], described["Provider"]) == ("fluss.sales.orders", "All orders.", "lakeward")
    assert re.search(r"/lake/sales/orders-[0-9a-f]{12}$", described["Location"])
    assert described["primary_key"] == "PRIMARY KEY (id) NOT ENFORCED"
    names = [row.col_name for row in extended]
    assert names[names.index("# Partition Information") + 2] == "name"
    assert {name: properties[name] for name in ("lake.table", "lake.format", "lake.missing-columns", "lake.status", "bucket.num")} == {
        "lake.table": "lake.sales.orders",
        "lake.format": "iceberg",
        "lake.missing-columns": "late",
        "lake.status": "Tiered",
        "bucket.num": "2",
    }
    assert "sales.fresh is not in the lake yet" in dict(shop.rows("SHOW TBLPROPERTIES fluss.sales.fresh"))["lake.unreadable"]


def test_the_name_of_the_lake_copy_and_versions_mean_the_lake_by_default_too(default_shop: Shop) -> None:
    shop = default_shop
    [first] = shop.rows("SELECT snapshot_id FROM lake.sales.orders.snapshots")

    assert shop.rows("SELECT __bucket, __offset, id FROM fluss.sales.`orders$lake` WHERE id >= 490 ORDER BY id") == [
        (0, 49, 490),
        (1, 49, 491),
    ]
    assert shop.rows(f"SELECT count(*) FROM fluss.sales.orders VERSION AS OF {first.snapshot_id}") == [(ROWS,)]
    assert shop.rows("SELECT count(*) FROM fluss.sales.orders TIMESTAMP AS OF now()") == [(ROWS,)]
    assert "not in the lake yet" in complaint(shop.spark, "SELECT * FROM fluss.sales.`fresh$lake`")


@pytest.mark.parametrize("name", ["orders$lake", "orders$changelog"])
def test_names_for_reading_are_not_written(name: str, default_shop: Shop) -> None:
    for sql in (f"INSERT INTO fluss.sales.`{name}` VALUES (1)", f"DELETE FROM fluss.sales.`{name}`"):
        message = f"cannot write to fluss.sales.{name}: this name is for reading only. Write to fluss.sales.orders"
        assert message in complaint(default_shop.spark, sql), sql
    assert f"cannot truncate fluss.sales.{name}" in complaint(default_shop.spark, f"TRUNCATE TABLE fluss.sales.`{name}`")


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("INSERT OVERWRITE {table} VALUES (1, 'a', 2)", "cannot overwrite rows of {table}: the log of the table keeps what it has"),
        (
            "UPDATE {table} SET id = 3",
            "rows are not changed in place. INSERT INTO replaces the row of each key",
        ),
        ("TRUNCATE TABLE {table}", "cannot truncate {table}: rows are removed by their keys alone, with DELETE FROM ... WHERE"),
    ],
)
def test_what_changes_rows_in_another_way_is_refused_with_the_statement_that_helps(sql: str, reason: str, default_shop: Shop) -> None:
    table = "fluss.sales.orders"
    assert reason.format(table=table) in complaint(default_shop.spark, sql.format(table=table))
