"""Bounds of a file's columns: a reader that skips files by them must find every row that is there."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import EqualTo

from support.lakes.lake_files import write_values
from tiering.lake.writing import parquet_stream

LONG = "z" * 1_000_000


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["a", LONG, "b"]),
        (pa.string(), [LONG, None, "b"]),
        (pa.binary(), [b"a", b"\xff" * 5_000, b""]),
        (pa.string(), ["\ud7ff" * 17, "a", "b"]),
        (pa.string(), ["\U0010ffff" * 20, "\U0001f600" * 20, ""]),
        (pa.binary(), [b"\xff" * 20, b"\x00", b"\xfe" * 17]),
        (pa.float64(), [float("inf"), -0.0, 1.0]),
    ],
    ids=["long text", "long text first", "long bytes", "before the surrogates", "highest", "highest bytes", "double"],
)
def test_every_value_is_found_by_a_scan_that_skips_files(
    kit: Any, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, values: list[Any]
) -> None:
    monkeypatch.setattr(parquet_stream, "ROW_GROUP_ROWS", 1)
    table = kit.table(schema=pa.schema([("value", kind)]), bucket_count=1)
    iceberg, files = write_values(kit, table, values)
    assert len(files) == 1
    for value in values:
        if value is not None:
            assert iceberg.scan(row_filter=EqualTo("value", value)).to_arrow().num_rows == 1
    assert iceberg.scan(row_filter="value is null").to_arrow().num_rows == values.count(None)


def test_bounds_of_values_that_are_not_a_number_leave_out_nothing(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_stream, "ROW_GROUP_ROWS", 1)
    table = kit.table(schema=pa.schema([("value", pa.float64())]), bucket_count=1)
    iceberg, files = write_values(kit, table, [1.0, float("nan"), 3.0])
    assert [1 in file.lower_bounds for file in files] == [True, False]
    assert iceberg.scan(row_filter="value > 2.0").to_arrow().num_rows == 1
    assert iceberg.scan(row_filter="value is nan").to_arrow().num_rows == 1


def test_columns_of_short_values_keep_their_bounds(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_stream, "ROW_GROUP_ROWS", 1)
    _, (file,) = write_values(kit, kit.table(schema=pa.schema([("value", pa.string())]), bucket_count=1), ["b", None, "a"])
    assert (file.lower_bounds[1], file.upper_bounds[1], file.null_value_counts[1]) == (b"a", b"b", 1)


FAR: dict[str, tuple[pa.DataType, list[int | None]]] = {
    "date": (pa.date32(), [-(2**31), -719_163, 0, None, 2_932_897, 2**31 - 1]),
    "timestamp": (pa.timestamp("us"), [-(2**63), -62_135_596_800_000_001, 0, None, 253_402_300_800_000_000, 2**63 - 1]),
    "timestamptz": (pa.timestamp("us", "UTC"), [-(2**63), 0, None, 2**63 - 1]),
}
"""Values outside of the years 1 to 9999: Python cannot represent them, so they are numbers here."""


@pytest.mark.parametrize("one_group", [True, False])
@pytest.mark.parametrize("name", FAR)
def test_dates_and_times_that_python_does_not_have_are_written_without_bounds(
    kit: Any, monkeypatch: pytest.MonkeyPatch, name: str, one_group: bool
) -> None:
    if not one_group:
        monkeypatch.setattr(parquet_stream, "ROW_GROUP_ROWS", 1)
    kind, values = FAR[name]
    iceberg, (file,) = write_values(kit, kit.table(schema=pa.schema([("value", kind)]), bucket_count=1), values)
    assert 1 not in file.lower_bounds
    assert 1 not in file.upper_bounds
    assert (file.value_counts[1], file.null_value_counts[1]) == (len(values), 1)
    assert {2, 3, 4} <= file.lower_bounds.keys()  # the other columns keep theirs
    stored = pa.int32() if kind == pa.date32() else pa.int64()
    assert iceberg.scan().to_arrow()["value"].cast(stored).to_pylist() == values
    assert iceberg.scan(row_filter="value = '1970-01-01'" if name == "date" else "value is null").to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.decimal128(38, 0), [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(0)]),
        (pa.decimal128(38, 38), [Decimal("0." + "9" * 38), Decimal("-0." + "9" * 38)]),
        (pa.decimal128(18, 2), [Decimal("-9999999999999999.99"), Decimal("9999999999999999.99")]),
        (pa.float32(), [float("inf"), float("-inf"), -0.0]),
        (pa.float64(), [5e-324, -1.7976931348623157e308, float("inf")]),
        (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
        (pa.timestamp("us"), [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)]),
    ],
    ids=["wide decimal", "small decimal", "decimal", "float", "double", "date", "timestamp"],
)
def test_the_farthest_values_that_python_has_keep_their_bounds(kit: Any, kind: pa.DataType, values: list[Any]) -> None:
    iceberg, (file,) = write_values(kit, kit.table(schema=pa.schema([("value", kind)]), bucket_count=1), values)
    of_type = iceberg.schema().find_field("value").field_type
    assert from_bytes(of_type, file.lower_bounds[1]) == plain(min(values))
    assert from_bytes(of_type, file.upper_bounds[1]) == plain(max(values))


def plain(value: Any) -> Any:
    """Returns a bound as pyiceberg reads it."""
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    return (value - date(1970, 1, 1)).days if isinstance(value, date) else value
