"""NaN beside numbers: a reader that skips files or row groups by their statistics finds every row."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo, GreaterThan, In, IsNaN, IsNull, LessThan, NotEqualTo, NotIn, NotNaN
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow

from support.lakes.lake_files import write_values
from support.values.nan_values import KINDS, NAN, check_duckdb, drawn
from tiering.lake.writing import parquet_stream

FILTERS = (
    IsNaN("value"),
    NotNaN("value"),
    NotEqualTo("value", 1.0),
    NotIn("value", {1.0, 0.0}),
    In("value", {1.0, 2.5}),
    GreaterThan("value", 1.0),
    LessThan("value", 1.0),
    EqualTo("value", 1.0),
    IsNull("value"),
)


@KINDS
@pytest.mark.parametrize("rows_of_a_group", [2, 100])
def test_pyiceberg_and_duckdb_find_every_row(kit: Any, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, rows_of_a_group: int) -> None:
    monkeypatch.setattr(parquet_stream, "ROW_GROUP_ROWS", rows_of_a_group)
    for number, values in enumerate(drawn()):
        table = kit.table(f"nan_{number}", schema=pa.schema([("value", kind)]), bucket_count=1)
        iceberg, files = write_values(kit, table, values)
        rows = pa.table({"value": pa.array(values, kind)})
        for condition in FILTERS:
            expected = rows.filter(expression_to_pyarrow(bind(iceberg.schema(), condition, case_sensitive=True)))
            assert iceberg.scan(row_filter=condition).to_arrow().num_rows == expected.num_rows, (condition, values)
        check_duckdb([file.file_path.removeprefix("file://") for file in files], rows)


def test_only_the_files_with_nan_lose_their_statistics(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_stream, "ROW_GROUP_ROWS", 2)
    table = kit.table(schema=pa.schema([("value", pa.float64())]), bucket_count=1)
    iceberg, files = write_values(kit, table, [1.0, 2.0, 3.0, NAN, 5.0, 6.0])
    assert [(file.record_count, 1 in file.lower_bounds) for file in files] == [(2, True), (4, False)]
    assert all({2, 3, 4} <= file.lower_bounds.keys() for file in files)
    assert iceberg.scan(row_filter=GreaterThan("value", 4.0)).to_arrow().num_rows == 2
    assert kit.offsets_in_lake(table) == [(0, offset) for offset in range(6)]


def test_nested_floats_with_nan_have_no_statistics(kit: Any, tmp_path: Path) -> None:
    number = pa.field("number", pa.float32())
    nested = {
        "row": (pa.struct([number, ("text", pa.string())]), {"number": NAN, "text": "a"}, {"number": 1.0, "text": "b"}),
        "list": (pa.list_(pa.float64()), [1.0, NAN], [2.0]),
        "map": (pa.map_(pa.string(), pa.list_(pa.float64())), [("a", [1.0]), ("b", [NAN])], [("c", [2.0])]),
    }
    for (name, (kind, with_nan, without)), is_nan in itertools.product(nested.items(), (True, False)):
        table = kit.table(f"{name}_{is_nan}", schema=pa.schema([("value", kind)]), bucket_count=1)
        _, (file,) = write_values(kit, table, [None, without, with_nan if is_nan else without])
        metadata = pq.read_metadata(file.file_path.removeprefix("file://"))
        columns = [metadata.row_group(0).column(place) for place in range(metadata.num_columns)]
        for column in columns:
            is_float = column.physical_type in ("FLOAT", "DOUBLE")
            assert (column.statistics is None) == (is_float and is_nan), column.path_in_schema
