"""Rows whose buffers lie at odd addresses, as those of a mapped segment or of a message may."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from support.lakes.lake_files import commit, write
from support.values.unaligned import unaligned
from tiering.library_guards.bucket_hash import bucket_ids_of
from tiering.model.tables import BucketKey

BUCKETS = 4


@pytest.mark.parametrize("precision", [5, 9, 18, 38])
@pytest.mark.parametrize("shift", [1, 4, 8])
def test_a_log_table_with_a_decimal_bucket_key_is_tiered(kit: Any, precision: int, shift: int) -> None:
    nested = pa.struct([("many", pa.list_(pa.decimal128(precision, 2))), ("by", pa.map_(pa.string(), pa.decimal128(precision, 2)))])
    fields = [pa.field("price", pa.decimal128(precision, 2), nullable=False), pa.field("more", nested), pa.field("note", pa.string())]
    table = kit.table(schema=pa.schema(fields), bucket_keys=("price",), bucket_count=BUCKETS)
    prices = [Decimal(number).scaleb(-2) for number in range(-300, 300)]
    bucket_id = 2
    mine = [
        price
        for price, computed in zip(prices, bucket_ids_of(pa.array(prices, pa.decimal128(precision, 2)), BUCKETS), strict=True)
        if computed == bucket_id
    ]
    rows = [
        {
            "price": price,
            "more": {"many": [price, None], "by": [("x", price)]} if offset % 3 else None,
            "note": f"{price}",
            "__bucket": bucket_id,
            "__offset": offset,
            "__timestamp": offset,
        }
        for offset, price in enumerate(mine)
    ]
    batch = unaligned(pa.RecordBatch.from_pylist(rows, schema=table.lake_schema()), shift)
    half = len(rows) // 2
    lake_table = commit(kit, table, write(kit, table, batch.slice(0, half), batch.slice(half), key=BucketKey(None, bucket_id)))
    lake_rows = lake_table.scan().to_arrow().sort_by("__offset").to_pylist()
    assert [{**row, "__timestamp": row["__offset"]} for row in lake_rows] == rows
