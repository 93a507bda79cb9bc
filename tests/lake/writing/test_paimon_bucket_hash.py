"""Buckets are those that Paimon computes itself."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pypaimon import Schema
from pypaimon.schema.table_schema import TableSchema
from pypaimon.write.row_key_extractor import FixedBucketRowKeyExtractor

from tiering.errors import UnsupportedType
from tiering.lake.writing.paimon_bucket_hash import _shortest, bucket_ids_of

TEXTS = ["", "a", "seven77", "eight888", "a text of many letters", "größer", "x" * 100]
KEYS: dict[str, Any] = {
    "int8": pa.array([0, 1, -1, 127, -128, 5, 6], pa.int8()),
    "int16": pa.array([0, 1, -1, 32767, -32768, 5, 6], pa.int16()),
    "int32": pa.array([0, 1, -1, 2**31 - 1, -(2**31), 5, 6], pa.int32()),
    "int64": pa.array([0, 1, -1, 2**63 - 1, -(2**63), 5, 6], pa.int64()),
    "date": pa.array([date(1970, 1, 1), date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31), *[date(2000, 1, 1)] * 3], pa.date32()),
    "string": pa.array(TEXTS, pa.string()),
    "binary": pa.array([text.encode() for text in TEXTS], pa.binary()),
    "decimal": pa.array([Decimal("0.00"), Decimal("-1.25"), Decimal("99999999.99"), *[Decimal("7.50")] * 4], pa.decimal128(10, 2)),
    "timestamp": pa.array([datetime(1970, 1, 1), datetime(2024, 2, 29, 12, 30, 1, 5000), *[datetime(1, 1, 1)] * 5], pa.timestamp("ms")),
    "long_decimal": pa.array(
        [Decimal(text) for text in ("0", "-1", "1e-18", "127e-18", "128e-18", "-129e-18", "-99999999999999999999.5")]
    ).cast(pa.decimal128(38, 18)),
    "fine_timestamp": pa.array(
        [
            datetime(1970, 1, 1),
            datetime(1969, 12, 31, 23, 59, 59, 999_999),
            datetime(2024, 2, 29, 12, 30, 1, 5),
            *[datetime(9999, 12, 31)] * 4,
        ],
        pa.timestamp("us"),
    ),
}


def buckets_of_paimon(columns: dict[str, Any], count: int) -> list[int]:
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    options = {"bucket": str(count), "bucket-key": ",".join(columns)}
    extractor = FixedBucketRowKeyExtractor(TableSchema.from_schema(0, Schema.from_pyarrow_schema(batch.schema, options=options)))
    return list(extractor.extract_partition_bucket_batch(batch)[1])


@pytest.mark.parametrize("name", KEYS)
def test_a_key_of_each_type(name: str) -> None:
    for count in (1, 7, 128):
        assert bucket_ids_of([KEYS[name]], count).tolist() == buckets_of_paimon({name: KEYS[name]}, count)


def test_several_keys_and_slices() -> None:
    columns = {name: column.slice(1, 5) for name, column in KEYS.items()}
    assert bucket_ids_of(list(columns.values()), 1_000).tolist() == buckets_of_paimon(columns, 1_000)


def test_a_long_decimal_has_the_bytes_that_java_gives_it() -> None:
    """pypaimon has one more of -128, and so looks for that row in another bucket."""
    lengths, data = _shortest(np.frombuffer((-128).to_bytes(16, "big", signed=True), np.uint8).reshape(1, 16))
    assert (lengths.tolist(), data.tobytes()) == ([1], b"\x80" + bytes(15))


def test_a_type_that_is_no_key_is_named() -> None:
    with pytest.raises(UnsupportedType, match="double"):
        bucket_ids_of([pa.array([1.5])], 4)
