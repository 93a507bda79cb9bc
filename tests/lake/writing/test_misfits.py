"""Rows that do not fit their lake table: the error names the column, and what a library says of a value is a field of its own."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tiering.errors import InvalidData
from tiering.lake.writing import fitting
from tiering.model.refused_records import RECORD_ID


def test_the_message_of_a_value_that_arrow_does_not_take_has_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise pa.ArrowInvalid("Integer value 4711 not in range")

    monkeypatch.setattr(fitting, "cast_values", refused)
    rows = pa.record_batch({"salary": pa.array([4711], pa.int64())})
    with pytest.raises(InvalidData) as raised:
        fitting.fit(rows, pa.schema([pa.field("salary", pa.int8())]))
    assert "salary" in raised.value.message
    assert "4711" not in raised.value.message + raised.value.hint
    assert "4711" in raised.value.ids[RECORD_ID]
