"""A person's view: `lakeward up`, and a Spark with the properties that `lakeward spark-conf --lake` prints."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from support.repository import ROOT
from support.running.cluster_of_processes import SCHEMA, Deployment, rows
from support.running.processes import wait_for
from support.running.spark_sessions import spark_session
from support.sql_examples import Example, ExpectedError, differences, load_examples
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TablePath

EXAMPLES = load_examples(ROOT / "sql_examples")
FLIGHTS, PLANES, WEATHER = (TablePath("demo", name) for name in ("flights", "planes", "weather"))
LIVE = TablePath("live", "orders")
PLACES = TablePath("live", "places")
COUNT = 1_000


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The setting of sql_examples/README.md."""
    deployment = Deployment(tmp_path_factory.mktemp("up"))
    try:
        deployment.start_up()
        make_the_setting(deployment)
        yield deployment
    finally:
        deployment.close()


def make_the_setting(deployment: Deployment) -> None:
    deployment.create(FLIGHTS, freshness="5 min", buckets=4)
    deployment.append(FLIGHTS, 0, COUNT, pieces=4)
    with deployment.cluster() as cluster:
        cluster.create_table(PLANES, TableSpec(SCHEMA, 1, properties={"table.datalake.enabled": "false"}))
    lake = load_catalog("lake", **deployment.data.lake_properties)
    lake.create_namespace_if_not_exists(WEATHER.database_name)
    lake.create_table((WEATHER.database_name, WEATHER.table_name), pa.schema([pa.field("id", pa.string())]))
    deployment.create(WEATHER, freshness="1 s", buckets=1)
    deployment.append(WEATHER, 0, 10, pieces=1)
    deployment.lakeward("tier", str(FLIGHTS))
    wait_for("the hand-made lake table is found", lambda: deployment.status(WEATHER).error_class)
    wait_for("the promise is broken", lambda: (deployment.status(WEATHER).lag_ms or 0) > 1_000)


@pytest.fixture(scope="module")
def spark(service: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """With the catalogs `fluss` and `lake`, as the command prints them."""
    printed = service.lakeward("spark-conf", "--lake")
    properties = dict(line.split(maxsplit=1) for line in printed.splitlines())
    with spark_session(tmp_path_factory.mktemp("warehouse"), properties) as session:
        yield session


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.file_name)
def test_an_example_gives_what_it_says(spark: SparkSession, example: Example) -> None:
    if isinstance(example.expected, ExpectedError):
        with pytest.raises(PySparkException) as caught:
            spark.sql(example.sql).collect()
        assert [text for text in example.expected.contains if text not in str(caught.value)] == []
        return
    answer = spark.sql(example.sql)
    cells = answer.selectExpr(*(f"CAST(`{name}` AS STRING) AS `{name}`" for name in answer.columns)).collect()
    assert differences(example.expected, answer.columns, [tuple(row) for row in cells]) == []


def first_with(rows: DataFrame, pending_records: int) -> Row | None:
    """The first row once the coordinator has looked at every bucket: it may look while the records are still being written."""
    row = rows.first()
    return row if row is not None and row.pending_records == pending_records else None


def test_a_call_moves_rows_and_the_status_shows_it(service: Deployment, spark: SparkSession) -> None:
    service.create(LIVE, freshness="1 h")
    service.append(LIVE, 0, COUNT)
    query = "SELECT * FROM fluss.sys.lake_tiering_status WHERE table_name = 'orders'"
    before = wait_for("all of the new table's records are seen", lambda: first_with(spark.sql(query), pending_records=COUNT))
    [called] = spark.sql("CALL fluss.sys.tier_table('live.orders')").collect()
    after = spark.sql(query).first()
    assert after is not None
    assert (before.status, before.pending_records, before.last_tiered_time) == ("Scheduled", COUNT, None)
    assert (called.state, called.records, called.lag_ms_after) == ("SUCCEEDED", COUNT, 0)
    assert (after.pending_records, after.lag_ms, after.lake_records) == (0, 0, COUNT)
    assert spark.table("fluss.live.orders").count() == COUNT
    assert after.last_tiered_time is not None
    assert after.lake_snapshot_id == called.lake_snapshot_id
    service.assert_exact(LIVE, COUNT)


def test_leases_of_a_primary_key_table_are_seen_and_steered(service: Deployment, spark: SparkSession) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])

    def write(number: int) -> None:
        with service.cluster() as cluster:
            cluster.upsert(PLACES, pa.table({"id": range(20), "text": [f"{number}"] * 20}, schema=schema), "test", number)
            cluster.take_kv_snapshots(PLACES)

    def call(statement: str) -> dict[str, object]:
        (row,) = spark.sql(f"CALL fluss.sys.{statement}").collect()
        return row.asDict()

    def refused(statement: str) -> str:
        with pytest.raises(PySparkException) as caught:
            call(statement)
        return str(caught.value)

    with service.cluster() as cluster:
        cluster.create_database(PLACES.database_name, ignore_if_exists=True)
        properties = {"table.datalake.enabled": "true", "table.datalake.freshness": "1 h"}
        cluster.create_table(PLACES, TableSpec(schema, 2, (), properties, ("id",)))
    write(0)
    acquired = call("acquire_kv_snapshot_lease('mine', 'live.places', ttl_ms => 60000)")
    assert (list(acquired), acquired["buckets"], acquired["unavailable"]) == (["lease_id", "buckets", "unavailable", "expires_at"], 2, 0)
    for number in range(1, 4):
        write(number)
    held = spark.sql("SELECT * FROM fluss.sys.kv_snapshot_lease_buckets WHERE lease_id = 'mine' ORDER BY bucket_id").collect()
    assert [(row.table_name, row.partition_name, row.bucket_id, row.available) for row in held] == [
        ("places", None, 0, True),
        ("places", None, 1, True),
    ]
    assert call("tier_table('live.places')")["state"] == "SUCCEEDED"
    read = spark.sql(f"SELECT count(*), min(text), max(text) FROM fluss.{PLACES}").first()
    assert tuple(read or ()) == (20, "3", "3")

    renewed = call("renew_kv_snapshot_lease('mine', 120000)")
    assert (renewed["state"], renewed["buckets"]) == ("ACTIVE", 2)
    leases = "SELECT lease_id, tables, buckets, ttl_ms, state, owner IS NOT NULL FROM fluss.sys.kv_snapshot_leases WHERE lease_id = 'mine'"
    assert [tuple(row) for row in spark.sql(leases).collect()] == [("mine", 1, 2, 120_000, "ACTIVE", True)]
    assert "cannot last 0 ms" in refused("renew_kv_snapshot_lease('mine', 0)")
    assert "cannot last 31536000000 ms" in refused("acquire_kv_snapshot_lease('mine', 'live.places', 31536000000)")
    assert "demo.flights is a log table" in refused("release_kv_snapshot_lease('mine', 'demo.flights')")
    assert "there is no lease 'nobody'" in refused("drop_kv_snapshot_lease('nobody')")

    released = call("release_kv_snapshot_lease('mine', 'live.places')")
    assert (released["state"], released["buckets"]) == ("RELEASED", 2)
    assert spark.sql(leases).collect() == []
    assert "there is no lease 'mine'" in refused("release_kv_snapshot_lease('mine', 'live.places')")


def test_spark_reads_the_lake_copy_row_by_row_through_the_iceberg_runtime(service: Deployment, spark: SparkSession) -> None:
    lake_rows = spark.sql("SELECT id, text FROM lake.demo.flights ORDER BY id").toArrow()
    assert lake_rows.cast(SCHEMA).equals(rows(0, COUNT))
    [offsets] = spark.sql("SELECT count(DISTINCT __bucket, __offset) AS once, count(*) AS all FROM lake.demo.flights").collect()
    assert (offsets.once, offsets["all"]) == (COUNT, COUNT)


def test_sys_works_with_fluss_as_default_catalog(spark: SparkSession) -> None:
    session = spark.newSession()
    session.sql("SET CATALOG fluss")
    [row] = session.sql("SELECT status FROM sys.lake_tiering_status WHERE table_name = 'weather'").collect()
    assert row.status == "Failed"
    assert session.sql("CALL sys.help('tier_table')").count() > 1


def test_the_command_line_says_the_same(service: Deployment) -> None:
    statuses = json.loads(service.lakeward("status", "--format", "json"))
    assert {status["table"]: status["status"] for status in statuses}["demo.weather"] == "Failed"
    [status] = json.loads(service.lakeward("status", "demo.flights", "--format", "json"))
    assert (status["lake_records"], status["pending_records"]) == (COUNT, 0)


def test_a_lake_table_that_is_mended_comes_back_with_a_call(service: Deployment, spark: SparkSession) -> None:
    lake = load_catalog("lake", **service.data.lake_properties)
    lake.drop_table((WEATHER.database_name, WEATHER.table_name))
    [called] = spark.sql("CALL fluss.sys.tier_table('demo.weather')").collect()
    assert (called.state, called.records) == ("SUCCEEDED", 10)
    status = service.status(WEATHER)
    assert (status.last_error, status.error_class, status.consecutive_failures, status.next_retry_time) == (None, None, 0, None)
    assert status.error_count >= 1
