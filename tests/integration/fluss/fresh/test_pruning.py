"""Conditions on a bucket key read only the buckets of a real Fluss cluster that can have the key, and miss no row."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support.clusters.fluss_owner import opened_source
from support.clusters.fluss_tables import FlussTables
from support.fresh.served_read import served_read
from support.running.cluster_of_processes import KEYED
from support.running.fluss_deployment import BY_HAND, FlussDeployment
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cli.spark.properties import CATALOG
from tiering.model.reading.conditions import Filter, Operator
from tiering.model.reading.scans import ReadPart, ReadScan
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import TableInfo, TablePath

BUCKETS = 5
ROWS = 300


def numbers(bits: int) -> list[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    rng = random.Random(bits)
    return list({*range(-5, 60), low, high, *(rng.randint(low, high) for _ in range(ROWS))})


KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), numbers(32)),
    "bigint": (pa.int64(), numbers(64)),
    "string": (pa.string(), ["a", "ä€😀", *("key " + "x" * (number % 40) + str(number) for number in range(ROWS))]),
    "date": (pa.date32(), [date(1969, 12, 1) + timedelta(days=137 * number) for number in range(ROWS)]),
}


@pytest.mark.parametrize("primary_key", [True, False], ids=["primary-key", "log"])
@pytest.mark.parametrize("kind", KEYS)
def test_the_bucket_of_a_key_is_the_one_in_which_fluss_has_it(
    fluss: LocalFlussCluster, tables: FlussTables, kind: str, primary_key: bool
) -> None:
    key_type, keys = KEYS[kind]
    schema = pa.schema([pa.field("k", key_type, nullable=False), pa.field("n", pa.int64())])
    name = f"buckets_of_{kind}_{'key' if primary_key else 'log'}"
    batch = pa.RecordBatch.from_arrays([pa.array(keys, key_type), pa.array(range(len(keys)), pa.int64())], schema=schema)
    if primary_key:
        tables.upsert(tables.create(name, schema, ["k"], buckets=BUCKETS, properties=BY_HAND), batch.to_pylist())
    else:
        tables.append(tables.create(name, schema, buckets=BUCKETS, bucket_keys=["k"], properties=BY_HAND), [batch])
    with opened_source(fluss.bootstrap_servers) as source:
        table = source.table(TablePath("sales", name))
        by_bucket: dict[int, list[Any]] = defaultdict(list)
        for bucket, ends in source.offsets(table).items():
            split = TieringLogSplit(table.path, bucket, None, ends.log_start, ends.log_end, None)
            for rows in source.reader(table, split).read():
                by_bucket[bucket.bucket_id] += rows.column("k").to_pylist()
        assert sorted(repr(key) for own in by_bucket.values() for key in own) == sorted(map(repr, keys))
        assert len(by_bucket) == BUCKETS
        for bucket_id, own in by_bucket.items():
            computed = source.key_buckets(table, pa.record_batch({"k": pa.array(own, key_type)}))
            assert computed is not None
            assert set(computed) == {bucket_id}


@pytest.fixture(scope="module", params=["primary-key", "log"])
def keyed(request: pytest.FixtureRequest, service: FlussDeployment, tables: FlussTables) -> TableInfo:
    """A table with the keys 0 to 59, of which the lake has the first 40."""
    is_keyed = request.param == "primary-key"
    shape = {"primary_key": ["id"]} if is_keyed else {"bucket_keys": ["id"]}
    table = tables.create("pruned_keys" if is_keyed else "pruned_log", KEYED, buckets=BUCKETS, properties=BY_HAND, **shape)

    def write(first: int, stop: int) -> None:
        rows = [{"id": number, "text": f"row {number}"} for number in range(first, stop)]
        if is_keyed:
            tables.upsert(table, rows)
        else:
            tables.append(table, pa.Table.from_pylist(rows, KEYED).to_batches())

    write(0, 40)
    service.lakeward("tier", str(table.path))
    write(40, 60)
    return table


def test_a_condition_on_the_bucket_key_reads_one_bucket(service: FlussDeployment, keyed: TableInfo) -> None:
    with served_read(service.uri, keyed.path) as read:
        assert len(read.cluster_buckets(ReadScan())) == BUCKETS
        for part in (ReadPart.ROWS, ReadPart.LOG_ROWS, ReadPart.CHANGELOG):
            for key in (-1, 0, 13, 39, 40, 59, 60):
                scan = ReadScan(part, conditions=(Filter("id", Operator.EQUAL, (key,)),))
                assert len(read.cluster_buckets(scan)) <= 1
                expected = [key] if (40 if part is ReadPart.LOG_ROWS else 0) <= key < 60 else []
                assert [row["id"] for row in read.rows(scan)] == expected


def test_a_point_query_has_its_row(keyed: TableInfo, fresh_spark: SparkSession) -> None:
    for key in (0, 17, 39, 40, 59):
        assert [row.text for row in fresh_spark.sql(f"SELECT text FROM {CATALOG}.{keyed.path} WHERE id = {key}").collect()] == [
            f"row {key}"
        ]
    assert fresh_spark.sql(f"SELECT text FROM {CATALOG}.{keyed.path} WHERE id = 60").collect() == []
    rows = fresh_spark.sql(f"SELECT id FROM {CATALOG}.{keyed.path} WHERE id IN (1, 44, 1000)").collect()
    assert sorted(row.id for row in rows) == [1, 44]
