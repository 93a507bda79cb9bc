"""`fluss.db.t` of a real Fluss cluster in Spark: rows of lake and log, of KV snapshots and of remote segments, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support.clusters.fluss_snapshots import snapshots_up_to
from support.clusters.fluss_tables import FlussTables
from support.fresh.served_read import served_read
from support.fresh.stock import CHANGES_OF_TWO_KEYS, fill_stock
from support.running.cluster_of_processes import KEYED, SCHEMA, rows
from support.running.fluss_deployment import BY_HAND, FlussDeployment
from support.running.processes import wait_for
from tiering.cli.spark.properties import CATALOG
from tiering.client import LakewardClient
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.cluster.fluss.log.fetch import FETCH_BYTES
from tiering.model.reading.conditions import Filter, Operator
from tiering.model.reading.scans import ReadPart, ReadScan
from tiering.model.tables import BucketKey, TableInfo

REGIONS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("region", pa.string(), nullable=False), ("text", pa.string())])


def tier(service: FlussDeployment, table: TableInfo) -> None:
    service.lakeward("tier", str(table.path))


def name_of(table: TableInfo, suffix: str = "") -> str:
    return f"{CATALOG}.{table.path.database_name}.`{table.path.table_name}{suffix}`"


def answer(spark: SparkSession, statement: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in spark.sql(statement).collect())


def total(spark: SparkSession, table: TableInfo, suffix: str = "") -> int:
    [row] = spark.sql(f"SELECT count(*) AS total FROM {name_of(table, suffix)}").collect()
    return int(row.total)


def appended(first: int, count: int) -> Counter[tuple[Any, ...]]:
    return Counter((number, f"row {number}") for number in range(first, first + count))


def keyed(keys: Iterable[int], text: str) -> list[dict[str, Any]]:
    return [{"id": key, "text": f"{text} {key}"} for key in keys]


def test_a_log_table_has_each_row_before_its_first_round_and_after_it(
    service: FlussDeployment, tables: FlussTables, fresh_spark: SparkSession
) -> None:
    table = tables.create("log", SCHEMA, buckets=3, properties=BY_HAND)
    assert total(fresh_spark, table) == 0
    service.write(tables, table, 0, 60)
    assert answer(fresh_spark, f"SELECT * FROM {name_of(table)}") == appended(0, 60)
    tier(service, table)
    assert answer(fresh_spark, f"SELECT * FROM {name_of(table)}") == appended(0, 60)
    service.write(tables, table, 60, 30)

    assert answer(fresh_spark, f"SELECT * FROM {name_of(table)}") == appended(0, 90)
    assert answer(fresh_spark, f"SELECT text FROM {name_of(table)} WHERE id >= 58 AND id < 62") == Counter(
        (f"row {number}",) for number in range(58, 62)
    )
    assert total(fresh_spark, table) == 90
    assert total(fresh_spark, table, "$lake") == 60
    assert len(fresh_spark.sql(f"SELECT id FROM {name_of(table)} LIMIT 70").collect()) == 70


def test_the_changelog_has_the_place_and_the_time_of_each_record(
    service: FlussDeployment, tables: FlussTables, fresh_spark: SparkSession
) -> None:
    begin = datetime.now(UTC)
    table = tables.create("logged", SCHEMA, buckets=1, properties=BY_HAND)
    service.write(tables, table, 0, 40)
    tier(service, table)
    service.write(tables, table, 40, 20)

    records = fresh_spark.sql(f"SELECT * FROM {name_of(table, '$changelog')}").collect()

    assert records[0].__fields__ == ["_change_type", "_log_offset", "_commit_timestamp", "id", "text"]
    assert sorted((row._log_offset, row.id) for row in records) == [(number, number) for number in range(60)]
    assert {row._change_type for row in records} == {"+A"}
    second = timedelta(seconds=1)
    assert all(begin - second < row._commit_timestamp.replace(tzinfo=UTC) < datetime.now(UTC) + second for row in records)
    assert total(fresh_spark, table, "$changelog") == 60


def test_the_last_change_of_a_key_replaces_its_row_in_the_lake(
    service: FlussDeployment, tables: FlussTables, fresh_spark: SparkSession
) -> None:
    table = tables.create("stock", KEYED, ["id"], buckets=2, properties=BY_HAND)
    stock = fill_stock(
        lambda keys, text: tables.upsert(table, keyed(keys, text)),
        lambda keys: tables.delete(table, [{"id": key} for key in keys]),
        lambda: tier(service, table),
    )

    assert answer(fresh_spark, f"SELECT * FROM {name_of(table)}") == Counter(stock.items())
    assert answer(fresh_spark, f"SELECT * FROM {name_of(table)} WHERE text LIKE 'old%' AND id < 12") == Counter(
        [(10, "old 10"), (11, "old 11")]
    )
    assert total(fresh_spark, table) == len(stock)
    assert total(fresh_spark, table, "$lake") == 30
    changes = fresh_spark.sql(f"SELECT _change_type, id, text FROM {name_of(table, '$changelog')} WHERE id IN (3, 22)").collect()
    assert sorted((row.id, row._change_type, row.text) for row in changes) == CHANGES_OF_TWO_KEYS


def test_keys_without_a_lake_copy_come_from_the_kv_snapshot_which_is_leased(
    service: FlussDeployment, tables: FlussTables, fresh_spark: SparkSession
) -> None:
    table = tables.create("unlaked", KEYED, ["id"], buckets=2, properties=BY_HAND)
    tables.upsert(table, keyed(range(40), "old"))
    everything = {key: f"old {key}" for key in range(40)}
    assert answer(fresh_spark, f"SELECT * FROM {name_of(table)}") == Counter(everything.items())
    snapshots = snapshots_up_to(tables, table, 40)
    with served_read(service.uri, table.path) as read:
        tables.upsert(table, keyed(range(10), "new"))
        tables.delete(table, [{"id": key} for key in range(30, 35)])
        snapshots_up_to(tables, table, 65)
        assert leases(service) == {f"read-{read.opened.read_id}": {snapshot.snapshot_id for snapshot in snapshots.values()}}
        assert read.opened.log_records == 0
        assert Counter((row["id"], row["text"]) for row in read.rows()) == Counter(everything.items())
    assert leases(service) == {}

    everything |= {key: f"new {key}" for key in range(10)}
    tables.delete(table, [{"id": 39}])
    for key in (*range(30, 35), 39):
        del everything[key]
    assert answer(fresh_spark, f"SELECT * FROM {name_of(table)}") == Counter(everything.items())
    assert total(fresh_spark, table) == len(everything)


def leases(service: FlussDeployment) -> dict[str, set[int]]:
    """Snapshot ids of each lease, of reads only."""
    with LakewardClient(service.uri) as client:
        listed = client.list_kv_snapshot_leases()
    return {lease.lease_id: {held.snapshot_id for held in lease.snapshots} for lease in listed if lease.lease_id.startswith("read-")}


@pytest.mark.parametrize("primary_key", [(), ("id", "region")], ids=["log", "primary-key"])
def test_partitions_come_from_lake_and_log(
    service: FlussDeployment, tables: FlussTables, fresh_spark: SparkSession, primary_key: tuple[str, ...]
) -> None:
    name = "keyed_regions" if primary_key else "logged_regions"
    table = tables.create(name, REGIONS, primary_key, buckets=2, partition_keys=["region"], properties=BY_HAND)

    def write(region: str, numbers: range, text: str) -> None:
        written = [{"id": number, "region": region, "text": f"{text} {number}"} for number in numbers]
        if primary_key:
            tables.upsert(table, written)
        else:
            tables.append(table, pa.Table.from_pylist(written, REGIONS).to_batches(max_chunksize=5))

    ids = {region: tables.add_partition(table, {"region": region}) for region in ("north", "south")}
    write("north", range(10), "old")
    write("south", range(10), "old")
    tier(service, table)
    ids["west"] = tables.add_partition(table, {"region": "west"})
    write("west", range(10), "new")
    write("south", range(10, 20), "new")

    expected = {(region, number): "new" if region == "west" or number >= 10 else "old" for region in ids for number in range(10)}
    expected |= {("south", number): "new" for number in range(10, 20)}
    if primary_key:
        tables.upsert(table, [{"id": 3, "region": "north", "text": "newest 3"}])
        tables.delete(table, [{"id": 4, "region": "south"}])
        expected |= {("north", 3): "newest"}
        del expected["south", 4]
    everything = Counter((number, region, f"{text} {number}") for (region, number), text in expected.items())
    assert answer(fresh_spark, f"SELECT * FROM {name_of(table)}") == everything
    for region, partition_id in ids.items():
        own = Counter({row: 1 for row in everything if row[1] == region})
        assert answer(fresh_spark, f"SELECT * FROM {name_of(table)} WHERE region = '{region}'") == own
        assert total_of(fresh_spark, table, region) == own.total()
        assert partitions_read(service, table, region) <= {partition_id}
    tables.drop_partition(table, {"region": "north"})
    # The lake has the rows of its last round; changes that were only in the log went with the partition.
    kept = Counter({row: 1 for row in everything if row[1] != "north"}) + Counter(
        (number, "north", f"old {number}") for number in range(10)
    )
    assert answer(fresh_spark, f"SELECT * FROM {name_of(table)}") == kept


def total_of(spark: SparkSession, table: TableInfo, region: str) -> int:
    [row] = spark.sql(f"SELECT count(*) AS total FROM {name_of(table)} WHERE region = '{region}'").collect()
    return int(row.total)


def partitions_read(service: FlussDeployment, table: TableInfo, region: str) -> set[int | None]:
    scan = ReadScan(conditions=(Filter("region", Operator.EQUAL, (region,)),))
    with served_read(service.uri, table.path) as read:
        return {bucket.partition_id for bucket in read.cluster_buckets(scan)}


def test_records_in_remote_segments_are_read(service: FlussDeployment, tables: FlussTables, fresh_spark: SparkSession) -> None:
    properties = {**BY_HAND, "table.log.tiered.local-segments": "1", "table.log.arrow.compression.type": "NONE"}
    table = tables.create("remote", SCHEMA, buckets=1, properties=properties)
    service.write(tables, table, 0, 1_000, pieces=1)
    tier(service, table)
    for first in range(1_000, 12_000, 1_000):
        service.write(tables, table, first, 1_000, pieces=1)
    log = BucketLog(tables.client, table.path, table.table_id, BucketKey(None, 0))
    wait_for(
        "the oldest segments are remote alone",
        lambda: all(log.fetch(offset, 12_000, FETCH_BYTES)[1].HasField("remote_log_fetch_info") for offset in (0, 2_000)),
    )

    assert total(fresh_spark, table) == 12_000
    assert answer(fresh_spark, f"SELECT * FROM {name_of(table)}") == appended(0, 12_000)
    assert total(fresh_spark, table, "$changelog") == 12_000
    with served_read(service.uri, table.path) as read:
        assert read.opened.log_records == 11_000
        assert len(read.rows(ReadScan(ReadPart.LOG_ROWS))) == 11_000


def test_an_added_column_is_null_in_rows_of_the_lake(service: FlussDeployment, tables: FlussTables, fresh_spark: SparkSession) -> None:
    table = tables.create("widened", SCHEMA, buckets=2, properties=BY_HAND)
    service.write(tables, table, 0, 6)
    tier(service, table)
    wider = tables.add_column(table, pa.field("note", pa.string()))
    batch = rows(6, 3).append_column("note", pa.array(["a", None, "c"])).cast(wider.schema)
    tables.append(wider, batch.to_batches())

    assert answer(fresh_spark, f"SELECT * FROM {name_of(table)} WHERE id >= 4") == Counter(
        [(4, "row 4", None), (5, "row 5", None), (6, "row 6", "a"), (7, "row 7", None), (8, "row 8", "c")]
    )
