"""A task that runs again makes the same batches, in whatever pieces its rows come."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiering.errors import InvalidData
from tiering.table_writes.batches import CHUNK_ROWS, MESSAGE_LIMITS, BatchLimits, cut_batches

LIMITS = BatchLimits(rows=3_000, target_bytes=40_000, max_bytes=60_000)


def rows_of(lengths: list[int]) -> pa.RecordBatch:
    """Returns one row for each length: its number, a text of that length, a list, and NULLs."""
    numbers = range(len(lengths))
    return pa.record_batch(
        {
            "id": pa.array(numbers, pa.int64()),
            "text": pa.array(["x" * length if length else None for length in lengths], pa.string()),
            "tags": pa.array([list(range(length % 4)) for length in lengths], pa.list_(pa.int32())),
        }
    )


def pieces(rows: pa.RecordBatch, sizes: list[int]) -> Iterator[pa.RecordBatch]:
    start = 0
    for size in [*sizes, rows.num_rows]:
        yield rows.slice(start, size)
        start = min(rows.num_rows, start + size)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 300), max_size=50),
    st.integers(1, 100),
    st.lists(st.integers(0, 2_000), max_size=8),
)
def test_batches_do_not_depend_on_the_pieces_of_the_input(lengths: list[int], repeats: int, sizes: list[int]) -> None:
    rows = rows_of(lengths * repeats)

    batches = list(cut_batches([rows], LIMITS))

    assert list(cut_batches(pieces(rows, sizes), LIMITS)) == batches
    assert pa.Table.from_batches(batches, schema=rows.schema) == pa.Table.from_batches([rows])
    assert all(batch.num_rows <= LIMITS.rows for batch in batches)
    assert all(pa.ipc.get_record_batch_size(batch) <= LIMITS.max_bytes for batch in batches)


def test_batches_are_large_and_end_at_multiples_of_a_chunk() -> None:
    batches = list(cut_batches([rows_of([10] * 200_000)]))

    assert [batch.num_rows % CHUNK_ROWS for batch in batches[:-1]] == [0] * (len(batches) - 1)
    assert len(batches) <= 1 + sum(map(pa.ipc.get_record_batch_size, batches)) / (MESSAGE_LIMITS.target_bytes - 200_000)


def test_a_row_that_is_too_large_is_an_error() -> None:
    with pytest.raises(InvalidData, match="one row has 70"):
        list(cut_batches([rows_of([1, 70_000, 1])], LIMITS))


def test_an_input_that_fails_makes_no_shorter_batch() -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield rows_of([1] * 4_000)
        raise OSError("the machine is lost")

    batches: list[pa.RecordBatch] = []
    with pytest.raises(OSError, match="lost"):
        batches.extend(cut_batches(failing(), LIMITS))

    assert batches == list(cut_batches([rows_of([1] * 4_000)], LIMITS))[: len(batches)]
    assert sum(batch.num_rows for batch in batches) % CHUNK_ROWS == 0
