"""Hashing of key columns wherever their values lie in memory."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from support.values.unaligned import unaligned
from tiering.errors import InvalidData
from tiering.library_guards.bucket_hash import bucket_ids_of

KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-128, 0, 127]),
    "int16": (pa.int16(), [-5, 0, 5]),
    "int": (pa.int32(), [-(2**31), 0, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    "decimal(9)": (pa.decimal128(9, 2), [Decimal("-0.01"), Decimal("0.00"), Decimal("9999999.99")]),
    "decimal(18)": (pa.decimal128(18, 0), [Decimal(-1), Decimal(0), Decimal(10**17)]),
    "decimal(38)": (pa.decimal128(38, 10), [Decimal("-1e27"), Decimal(0), Decimal("1e27")]),
    "date": (pa.date32(), [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us"), [datetime(1, 1, 1), datetime(1970, 1, 1), datetime(9999, 12, 31)]),
    "timestamptz": (pa.timestamp("us", "UTC"), [-1, 0, 1]),
    "string": (pa.string(), ["", "a", "grün"]),
    "binary": (pa.binary(), [b"", b"\xff", b"abc"]),
}


@pytest.mark.parametrize("shift", range(1, 17))
@pytest.mark.parametrize("name", KEYS)
def test_a_column_hashes_the_same_wherever_it_lies(name: str, shift: int) -> None:
    kind, values = KEYS[name]
    column = pa.array(values * 40, kind)
    moved = unaligned(pa.record_batch({"key": column}), shift).column(0)
    assert bucket_ids_of(moved, 7).tolist() == bucket_ids_of(column, 7).tolist()
    assert bucket_ids_of(moved.slice(5, 50), 7).tolist() == bucket_ids_of(column, 7).tolist()[5:55]
    assert bucket_ids_of(moved.slice(3, 0), 7).tolist() == []


def test_a_panic_of_the_library_is_an_error_that_names_the_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.library_guards.bucket_hash.aligned", lambda column: column)
    moved = unaligned(pa.record_batch({"key": pa.array([Decimal(1)] * 9, pa.decimal128(9, 2))}), 8).column(0)
    if moved.buffers()[1].address % 16 == 0:
        moved = unaligned(pa.record_batch({"key": moved}), 16).column(0)
    with pytest.raises(InvalidData, match=r"decimal128\(9, 2\) cannot be hashed: PanicException"):
        bucket_ids_of(moved, 7)
