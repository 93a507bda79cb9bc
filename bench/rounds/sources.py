"""Rows for the benchmarks: flight-like ones of five columns, made from a seed, and TPC-H's lineitem of sixteen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BATCH_ROWS = 100_000
ROWS_PER_FILE = 1_000_000
TAIL_NUMBERS = 4_000
FIRST_DEPARTURE_US = 1_356_998_400_000_000
"""2013-01-01 00:00 UTC."""
LINEITEM_ROWS_PER_SCALE = 6_001_215
FLIGHT_FIELDS: list[pa.Field] = [
    pa.field("flight_id", pa.int64()),
    pa.field("delay_minutes", pa.int32()),
    pa.field("distance_km", pa.float64()),
    pa.field("departed_at", pa.timestamp("us", tz="UTC")),
    pa.field("tail_number", pa.string()),
]


@dataclass(frozen=True)
class Source:
    """Where a benchmark's rows come from. `batches(rows, scratch)` gives about so many, the same each time."""

    schema: pa.Schema
    batches: Callable[[int, Path], Iterator[pa.RecordBatch]]

    def write_files(self, folder: Path, rows: int, scratch: Path) -> int:
        """The rows as Parquet files of a million, which Spark reads fastest; how many rows there are."""
        folder.mkdir(parents=True)
        written, writer = 0, None
        for batch in self.batches(rows, scratch):
            if written % ROWS_PER_FILE < batch.num_rows:
                if writer is not None:
                    writer.close()
                writer = pq.ParquetWriter(folder / f"{written // ROWS_PER_FILE:05d}.parquet", self.schema, compression="zstd")
            assert writer is not None
            writer.write_batch(batch)
            written += batch.num_rows
        if writer is not None:
            writer.close()
        return written


def flight_batches(rows: int, scratch: Path) -> Iterator[pa.RecordBatch]:
    """Made by numpy from a seed."""
    random = np.random.default_rng(2013)
    tails = pa.array([f"N{number:05d}" for number in random.integers(10_000, 99_999, TAIL_NUMBERS)])
    for start in range(0, rows, BATCH_ROWS):
        count = min(BATCH_ROWS, rows - start)
        yield pa.record_batch(
            [
                pa.array(np.arange(start, start + count, dtype=np.int64)),
                pa.array(random.integers(-20, 300, count, dtype=np.int32)),
                pa.array(random.gamma(2.0, 600.0, count)),
                pa.array(FIRST_DEPARTURE_US + np.cumsum(random.integers(0, 2_000_000, count)), pa.timestamp("us", tz="UTC")),
                pa.DictionaryArray.from_arrays(random.integers(0, TAIL_NUMBERS, count, dtype=np.int32), tails).cast(pa.string()),
            ],
            schema=FLIGHTS.schema,
        )


def lineitem_batches(rows: int, scratch: Path) -> Iterator[pa.RecordBatch]:
    """Generated once into `scratch` by tpchgen-cli, at the scale that gives about `rows`."""
    folder = scratch / f"lineitem-{rows}"
    if not folder.exists():
        scale = f"{rows / LINEITEM_ROWS_PER_SCALE:.4f}"
        command = [str(Path(sys.executable).parent / "tpchgen-cli"), "parquet", "-s", scale, "--tables=lineitem", f"--output-dir={folder}"]
        subprocess.run(command, check=True, capture_output=True)
    for batch in pq.ParquetFile(folder / "lineitem.parquet").iter_batches(BATCH_ROWS):
        yield batch.cast(LINEITEM.schema)


_MONEY, _DAY = pa.decimal128(15, 2), pa.date32()
_LINEITEM_TYPES: dict[str, pa.DataType] = {
    **dict.fromkeys(("l_orderkey", "l_partkey", "l_suppkey"), pa.int64()),
    "l_linenumber": pa.int32(),
    **dict.fromkeys(("l_quantity", "l_extendedprice", "l_discount", "l_tax"), _MONEY),
    **dict.fromkeys(("l_returnflag", "l_linestatus"), pa.string()),
    **dict.fromkeys(("l_shipdate", "l_commitdate", "l_receiptdate"), _DAY),
    **dict.fromkeys(("l_shipinstruct", "l_shipmode", "l_comment"), pa.string()),
}
FLIGHTS = Source(pa.schema(FLIGHT_FIELDS), flight_batches)
LINEITEM = Source(pa.schema([pa.field(name, kind) for name, kind in _LINEITEM_TYPES.items()]), lineitem_batches)
SOURCES = {"flights": FLIGHTS, "lineitem": LINEITEM}
