"""Flight-like rows for the benchmarks: five columns (long, int, double, timestamp, string), made from a seed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("flight_id", pa.int64()),
        pa.field("delay_minutes", pa.int32()),
        pa.field("distance_km", pa.float64()),
        pa.field("departed_at", pa.timestamp("us", tz="UTC")),
        pa.field("tail_number", pa.string()),
    ]
)
TAIL_NUMBERS = 4_000
FIRST_DEPARTURE_US = 1_356_998_400_000_000
"""2013-01-01 00:00 UTC."""


def flight_batches(rows: int, batch_rows: int = 100_000, seed: int = 2013) -> Iterator[pa.RecordBatch]:
    """`rows` rows, the same for the same arguments."""
    random = np.random.default_rng(seed)
    tails = pa.array([f"N{number:05d}" for number in random.integers(10_000, 99_999, TAIL_NUMBERS)])
    for start in range(0, rows, batch_rows):
        count = min(batch_rows, rows - start)
        yield pa.record_batch(
            [
                pa.array(np.arange(start, start + count, dtype=np.int64)),
                pa.array(random.integers(-20, 300, count, dtype=np.int32)),
                pa.array(random.gamma(2.0, 600.0, count)),
                pa.array(FIRST_DEPARTURE_US + np.cumsum(random.integers(0, 2_000_000, count)), pa.timestamp("us", tz="UTC")),
                pa.DictionaryArray.from_arrays(random.integers(0, TAIL_NUMBERS, count, dtype=np.int32), tails).cast(pa.string()),
            ],
            schema=SCHEMA,
        )
