"""Bucketing: the same bucket as the lake's partition value, for every key type, and a formula that never changes."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import types as iceberg
from pyiceberg.transforms import BucketTransform

from support.clusters.embedded import PATH, EmbeddedCluster, make_table, scan_all
from tiering.cluster.embedded.log.bucketing import Bucketing, bucket_ids
from tiering.cluster.embedded.log.placing import place_rows
from tiering.model.tables import TableInfo, TableType

KEYS: dict[str, tuple[pa.DataType, iceberg.PrimitiveType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), iceberg.IntegerType(), st.integers(-(2**7), 2**7 - 1)),
    "int16": (pa.int16(), iceberg.IntegerType(), st.integers(-(2**15), 2**15 - 1)),
    "int": (pa.int32(), iceberg.IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), iceberg.LongType(), st.integers(-(2**63), 2**63 - 1)),
    "decimal": (pa.decimal128(38, 2), iceberg.DecimalType(38, 2), st.decimals(-(10**30), 10**30, places=2)),
    "date": (pa.date32(), iceberg.DateType(), st.dates()),
    "timestamp": (pa.timestamp("us"), iceberg.TimestampType(), st.datetimes()),
    "timestamptz": (pa.timestamp("us", "UTC"), iceberg.TimestamptzType(), st.datetimes(timezones=st.just(UTC))),
    "string": (pa.string(), iceberg.StringType(), st.text()),
    "binary": (pa.binary(), iceberg.BinaryType(), st.binary()),
}


def plain(value: Any) -> Any:
    """Returns the value in the form that pyiceberg's transform accepts."""
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=value.tzinfo)) // timedelta(microseconds=1)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


@pytest.mark.parametrize("name", KEYS)
@given(data=st.data())
def test_one_key_hashes_as_icebergs_bucket_transform(name: str, data: st.DataObject) -> None:
    arrow, lake_type, strategy = KEYS[name]
    values = data.draw(st.lists(strategy, min_size=1, max_size=20))
    count = data.draw(st.integers(1, 300))
    batch = pa.record_batch({"key": pa.array(values, arrow)})

    buckets = bucket_ids(batch, Bucketing.ICEBERG, ["key"], count).tolist()

    expected = BucketTransform(count).transform(lake_type)
    assert buckets == [expected(plain(value)) for value in values]


def test_rows_land_where_iceberg_would_put_them(cluster: EmbeddedCluster) -> None:
    schema = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("n", pa.int64())])
    table = make_table(cluster, schema=schema, bucket_count=5, bucket_keys=("key",))
    keys = [f"key {number}" for number in range(200)]
    cluster.append(PATH, pa.table({"key": keys, "n": range(200)}, schema=schema), "writer", 0)

    rows = scan_all(cluster, table).to_pylist()

    expected = BucketTransform(5).transform(iceberg.StringType())
    assert len(rows) == 200
    assert all(row["__bucket"] == expected(row["key"]) for row in rows)


def test_the_combined_formula_is_as_written_and_stays_so() -> None:
    batch = pa.record_batch({"a": pa.array([1, 2, 34], pa.int64()), "b": ["x", "y", "z"]})
    buckets = bucket_ids(batch, Bucketing.COMBINED_V1, ["a", "b"], 1_000).tolist()

    modulus = 2_147_483_647
    long, text = (BucketTransform(modulus).transform(kind) for kind in (iceberg.LongType(), iceberg.StringType()))
    by_hand = [((31 * long(a) + text(b)) % modulus) % 1_000 for a, b in zip([1, 2, 34], ["x", "y", "z"], strict=True)]
    assert buckets == by_hand == [939, 747, 329]
    assert bucket_ids(batch, Bucketing.COMBINED_V1, ["b", "a"], 1_000).tolist() != buckets


@given(
    rows=st.lists(st.tuples(st.integers(-1_000, 1_000), st.sampled_from("abc"), st.integers(-2, 2)), min_size=1, max_size=60),
    count=st.integers(1, 7),
    keys=st.sampled_from([(), ("day",), ("day", "number")]),
)
def test_splitting_keeps_every_row_and_its_order(rows: list[tuple[int, str, int]], count: int, keys: tuple[str, ...]) -> None:
    schema = pa.schema(
        [
            pa.field("key", pa.int64(), nullable=False),
            pa.field("day", pa.string(), nullable=False),
            pa.field("number", pa.int32(), nullable=False),
        ]
    )
    columns = [[row[index] for row in rows] for index in range(3)]
    table = TableInfo(1, PATH, TableType.LOG, schema, count, datetime(2024, 1, 1, tzinfo=UTC), ("key",), partition_keys=keys)
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)], schema=schema)

    parts = place_rows(table, Bucketing.ICEBERG, batch.append_column("position", pa.array(range(len(rows)))), 0)

    places = [(part.partition_name, part.bucket_id) for part in parts]
    assert len(set(places)) == len(places)
    names = {(): lambda row: None, ("day",): lambda row: row[1], ("day", "number"): lambda row: f"{row[1]}${row[2]}"}[keys]
    hashed = bucket_ids(batch, Bucketing.ICEBERG, ["key"], count).tolist()
    for part in parts:
        positions = part.rows["position"].to_pylist()
        assert positions == sorted(positions) != []
        assert {names(rows[position]) for position in positions} == {part.partition_name}
        assert {hashed[position] for position in positions} == {part.bucket_id}
    assert sorted(position for part in parts for position in part.rows["position"].to_pylist()) == list(range(len(rows)))
