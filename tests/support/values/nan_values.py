"""Floats with NaN in any place, and what DuckDB finds of them in files."""

from __future__ import annotations

import math
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

NAN, INF = math.nan, math.inf
VALUES = [NAN, NAN, 1.0, 1.0, -0.0, 0.0, 2.5, -3.0, INF, -INF, None]
KINDS = pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
IN_DUCKDB = (
    "isnan(value)",
    "value <> 1.0",
    "value NOT IN (1.0, 0.0)",
    "value > 2.0",
    "value <= 1.0",
    "value < 1.0",
    "value >= 'NaN'::FLOAT",
)


def drawn() -> list[list[Any]]:
    """Columns with NaN in any place of any row group, and with none."""
    draw = random.Random(3)
    pairs = [[NAN, 1.0], [1.0, NAN], [NAN, NAN], [0.0, NAN, None], [1.0, 1.0, 1.0, 1.0, NAN, 1.0]]
    return pairs + [[draw.choice(VALUES) for _ in range(draw.randint(1, 9))] for _ in range(12)]


def check_duckdb(paths: list[str], rows: pa.Table) -> None:
    """The files give the rows that memory gives."""
    with duckdb.connect() as connection:
        connection.register("expected", rows)
        for condition in IN_DUCKDB:
            counts = [
                connection.execute(f"SELECT count(*) FROM {relation} WHERE {condition}").fetchone()
                for relation in (f"read_parquet({paths})", "expected")
            ]
            assert counts[0] == counts[1], (condition, rows)
