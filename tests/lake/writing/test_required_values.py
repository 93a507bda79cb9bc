"""Values within nested ones that are NOT NULL: marks of NULL below a NULL are removed, and a value that is missing is named."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.values.fuzzed_values import kinds, nullable
from support.values.plain_rows import plain_rows
from tiering.lake.writing.fitting import with_required_values
from tiering.model.refused_records import UnwritableRow


@given(data=st.data())
def test_rows_as_a_decoder_leaves_them_can_be_written(data: st.DataObject) -> None:
    """A decoder of Fluss spreads values over their rows: below a NULL, each field is marked as NULL, also those that are NOT NULL."""
    kind = data.draw(kinds())
    values = pa.array(data.draw(st.lists(nullable(kind), min_size=1, max_size=4)), kind.type)
    places = data.draw(st.lists(st.none() | st.integers(0, len(values) - 1), min_size=1, max_size=8))
    column: Any = values.take(pa.array(places, pa.int64()))
    field = pa.field("c", kind.type)
    schema, start = pa.schema([field]), data.draw(st.integers(0, len(column)))
    for part in (column, column.slice(start)):
        settled = with_required_values(part, field)
        settled.validate(full=True)
        rows = pa.Table.from_arrays([settled], schema=schema)
        pq.write_table(rows, io.BytesIO())
        assert plain_rows(rows) == plain_rows(pa.Table.from_arrays([part], schema=schema))


def test_a_missing_value_is_named_with_its_path_and_its_row() -> None:
    tags = pa.list_(pa.field("element", pa.string(), nullable=False))
    column = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), pa.array(["a", "b", None]), type=tags)
    with pytest.raises(UnwritableRow) as caught:
        with_required_values(column, pa.field("tags", tags))
    assert (caught.value.row, caught.value.column) == (1, "tags.element")
