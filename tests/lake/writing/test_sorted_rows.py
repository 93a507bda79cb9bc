"""Rows are sorted as a comparison of Python values says, for all types, directions and places of NULL."""

from __future__ import annotations

import math
import random
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pytest

from tiering.lake.schema.file_order import SortEntry, is_sortable
from tiering.lake.writing.sorted_rows import merged_rows, sorted_rows

FLOATS = [-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan, struct.unpack("<d", struct.pack("<Q", 0xFFF8 << 48))[0]]
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [False, True]),
    (pa.int32(), [-5, 0, 7]),
    (pa.int64(), [-(1 << 60), 0, 1 << 60]),
    (pa.float32(), FLOATS),
    (pa.float64(), FLOATS),
    (pa.decimal128(20, 2), [Decimal("-3.50"), Decimal("0.00"), Decimal("3.49")]),
    (pa.date32(), [date(1950, 1, 1), date(2026, 1, 1)]),
    (pa.time64("us"), [time(0), time(12, 30)]),
    (pa.timestamp("us"), [datetime(1950, 1, 1), datetime(2026, 1, 1)]),
    (pa.timestamp("us", "UTC"), [datetime(1950, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=1)]),
    (pa.string(), ["", "B", "a", "ab", "é", "\U0001f600", "\uffff"]),
    (pa.large_string(), ["b", "a"]),
    (pa.binary(), [b"", b"\x00", b"\x7f", b"\xff"]),
    (pa.binary(2), [b"ab", b"\x00\xff", b"\xff\x00"]),
]


def rank(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value) if value == 0 else 0)
    return value


def compared(keys: list[SortEntry], left: dict[str, Any], right: dict[str, Any]) -> int:
    """Returns which row comes first; 0 = the rows are equal in all keys."""
    for key in keys:
        first, second = left[key.column], right[key.column]
        if first is None or second is None:
            if (first is None) != (second is None):
                return -1 if (first is None) == key.nulls_first else 1
            continue
        if rank(first) != rank(second):
            return -1 if (rank(first) < rank(second)) != key.descending else 1
    return 0


@pytest.mark.parametrize("seed", range(40))
def test_random_rows_are_in_the_order_that_python_finds(seed: int) -> None:
    rng = random.Random(seed)
    chosen = rng.sample(VALUES, rng.randrange(1, 4))
    count = rng.choice((0, 1, 2, 50, 400))
    columns: dict[str, pa.ChunkedArray[Any]] = {"position": pa.chunked_array([pa.array(range(count), pa.int64())])}
    for number, (kind, values) in enumerate(chosen):
        values = [*values, None] if rng.random() < 0.7 else values
        cut = rng.randrange(count + 1)
        rows = [rng.choice(values) for _ in range(count)]
        columns[f"c{number}"] = pa.chunked_array([pa.array(rows[:cut], kind), pa.array(rows[cut:], kind)])
    columns["nested"] = pa.chunked_array([pa.array([[position] for position in range(count)], pa.list_(pa.int64()))])
    keys = [SortEntry(f"c{number}", rng.random() < 0.5, rng.random() < 0.5) for number in range(len(chosen))]
    table = pa.table(columns)
    expected = sorted(table.to_pylist(), key=cmp_to_key(lambda left, right: compared(keys, left, right)))
    assert sorted_rows(table, keys)["position"].to_pylist() == [row["position"] for row in expected]


@pytest.mark.parametrize("seed", range(40))
def test_sorted_streams_are_merged_to_the_order_of_all_rows(seed: int) -> None:
    rng = random.Random(seed)
    (kind, values), other = rng.choice(VALUES), rng.randrange(1, 1_000)
    keys = [SortEntry("c", rng.random() < 0.5, rng.random() < 0.5), SortEntry("n", rng.random() < 0.5)]
    streams, tables = [], []
    for _ in range(rng.randrange(1, 8)):
        count = rng.choice((0, 1, 7, 200))
        low = rng.choice((0, other))  # some streams have other rows than the others, some the same
        columns = {"c": pa.array([rng.choice([*values, None]) for _ in range(count)], kind)}
        rows = pa.table({**columns, "n": [low + rng.randrange(other) for _ in range(count)]}, pa.schema([("c", kind), ("n", pa.int64())]))
        tables.append(sorted_rows(rows, keys))
        streams.append(iter(tables[-1].to_batches(max_chunksize=rng.randrange(1, 60))))
    merged = pa.Table.from_batches(merged_rows(streams, keys, rng.randrange(1, 50)), tables[0].schema)
    assert repr(merged.to_pylist()) == repr(sorted_rows(pa.concat_tables(tables), keys).to_pylist())


def test_rows_of_a_stream_that_is_not_in_order_are_complete() -> None:
    streams = [iter(pa.table({"n": numbers}).to_batches(max_chunksize=2)) for numbers in ([9, 1, 5, 0], [2, 3, 8, 4])]
    merged = pa.Table.from_batches(merged_rows(streams, [SortEntry("n")], 2))
    assert sorted(merged["n"].to_pylist()) == [0, 1, 2, 3, 4, 5, 8, 9]


def test_every_type_that_an_option_may_name_has_values_here() -> None:
    assert all(is_sortable(kind) for kind, _ in VALUES)
