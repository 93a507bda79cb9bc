"""The checksum of rows: the same whatever order, files, widths and readers; another one for other rows."""

from __future__ import annotations

import math
import random
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from support.depth import examples
from support.values.any_values import columns
from support.values.every_type import CASES
from support.values.plain_checksum import plain_checksum
from tiering.lake.proof.row_checksum import BLOCK_ROWS, FEW_TEXTS, FEW_WORDS, LONG_TEXT, MODULUS, MOST_PLACES, TEXTS_AT_ONCE, row_checksum


def every_type() -> pa.Table:
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in CASES.items()})


def test_the_checksum_is_the_one_that_stands_in_footers_of_files() -> None:
    """Another one would make every file of before look damaged: then it needs a version of its own."""
    rows = pa.table(
        {
            "id": pa.array([1, -5, None], pa.int64()),
            "text": pa.array(["", "lake \U0001f600", None]),
            "price": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(9, 2)),
            "at": pa.array([datetime(2026, 1, 1), None, datetime(1969, 12, 31)], pa.timestamp("us")),
            "weight": pa.array([0.5, math.nan, None], pa.float64()),
            "tags": pa.array([["a", None], [], None], pa.list_(pa.string())),
        }
    )
    assert f"{row_checksum(rows):016x}" == "c5666a1dc2318c97"


def test_neither_order_nor_cuts_change_it() -> None:
    rows = every_type()
    whole = row_checksum(rows)
    assert row_checksum(rows.take(pa.array([2, 0, 3, 1]))) == whole
    parts = sum(row_checksum(rows.slice(start, 1)) for start in range(rows.num_rows))
    assert parts % MODULUS == whole
    assert row_checksum(rows.select(rows.column_names[::-1])) == whole


@pytest.mark.parametrize("name", CASES)
def test_files_read_back_by_another_engine_have_it(tmp_path: Path, name: str) -> None:
    kind, values = CASES[name]
    rows = pa.table({name: pa.array(values, kind)})
    path = tmp_path / "rows.parquet"
    pq.write_table(rows, path)
    with duckdb.connect() as connection:
        reader = connection.sql("SELECT * FROM read_parquet($path)", params={"path": str(path)}).to_arrow_reader(2)
        assert sum(row_checksum(batch) for batch in reader) % MODULUS == row_checksum(rows)
    assert row_checksum(pq.read_table(path)) == row_checksum(rows)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("only_nulls", "a_boolean")])
def test_each_value_counts(name: str) -> None:
    kind, values = CASES[name]
    checksums = {row_checksum(pa.table({name: pa.array([value], kind)})) for value in values}
    assert len(checksums) == len(values)


def test_values_that_change_places_are_told() -> None:
    rows = pa.table({"a": [1, 2], "b": [3, 4]})
    assert row_checksum(rows) != row_checksum(pa.table({"a": [1, 2], "b": [4, 3]}))
    assert row_checksum(rows) != row_checksum(pa.table({"b": [1, 2], "a": [3, 4]}))
    doubled = [[("k", 1)], [("k", 1), ("k", 1)]]
    maps = [pa.table({"m": pa.array([value], pa.map_(pa.string(), pa.int64()))}) for value in doubled]
    assert row_checksum(maps[0]) != row_checksum(maps[1])
    texts = [["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], ["abc", None]]
    assert len({row_checksum(pa.table({"l": pa.array([value], pa.list_(pa.string()))})) for value in texts}) == len(texts)


def test_a_column_of_nulls_and_a_wider_type_change_nothing() -> None:
    rows = pa.table({"i": pa.array([1, -7, None], pa.int8()), "f": pa.array([0.5, math.nan, None], pa.float32()), "d": [date(1, 1, 1)] * 3})
    wider = rows.set_column(0, "i", rows["i"].cast(pa.int64())).set_column(1, "f", rows["f"].cast(pa.float64()))
    assert row_checksum(wider) == row_checksum(rows)
    assert row_checksum(rows.append_column("later", pa.nulls(3, pa.list_(pa.string())))) == row_checksum(rows)
    money = pa.array([Decimal("1.50"), Decimal("-0.01")], pa.decimal128(9, 2))
    assert row_checksum(pa.table({"m": money})) == row_checksum(pa.table({"m": money.cast(pa.decimal128(30, 2))}))


def test_texts_of_any_length_count_to_their_last_byte() -> None:
    for length in (1, 7, 8, 9, 15, 16, 17, 8 * FEW_WORDS - 1, 8 * FEW_WORDS, 8 * FEW_WORDS + 1, 5_000):
        text = random.Random(length).randbytes(length)
        others = [text[:-1] + bytes([text[-1] ^ 1]), text[:-1], text + b"\0", bytes([text[0] ^ 128]) + text[1:]]
        checksums = {row_checksum(pa.table({"t": pa.array([other], pa.binary())})) for other in (text, *others)}
        assert len(checksums) == 5


@given(data=st.data())
def test_slices_of_any_values_have_what_copies_have(data: st.DataObject) -> None:
    column: Any = data.draw(columns(8))
    rows = pa.table({"c": column})
    for start, count in ((0, 3), (2, 5), (7, 1)):
        part = rows.slice(start, count)
        assert row_checksum(part) == row_checksum(part.take(pa.array(np.arange(count))))


@pytest.mark.parametrize("name", CASES)
def test_each_type_has_the_checksum_that_plain_arithmetic_gives(name: str) -> None:
    kind, values = CASES[name]
    rows = pa.table({name: pa.array(values, kind)})
    assert row_checksum(rows) == plain_checksum(rows)


@given(data=st.data())
def test_any_values_have_the_checksum_that_plain_arithmetic_gives(data: st.DataObject) -> None:
    columns_of_rows: list[Any] = [data.draw(columns(8)), data.draw(columns(8))]
    rows = pa.table(columns_of_rows, ["a", "b"])
    assert row_checksum(rows) == plain_checksum(rows)
    assert row_checksum(rows.slice(3, 4)) == plain_checksum(rows.slice(3, 4))


LENGTHS = {
    "empty": lambda random: 0,
    "codes": lambda random: 6,
    "words": lambda random: 8,
    "short": lambda random: random.randrange(9),
    "equal": lambda random: 20,
    "mixed": lambda random: random.randrange(30),
    "some are long": lambda random: random.randrange(9) if random.random() < 0.9 else random.randrange(8 * FEW_WORDS, 16 * FEW_WORDS),
    "few are long": lambda random: 5 if random.random() < 0.98 else random.randrange(2_000),
    "all are long": lambda random: random.randrange(8 * FEW_WORDS, 12 * FEW_WORDS),
}


@pytest.mark.parametrize("nulls", [0, 0.2])
@pytest.mark.parametrize("name", LENGTHS)
def test_texts_of_all_lengths_have_the_checksum_that_plain_arithmetic_gives(name: str, nulls: float) -> None:
    draw = random.Random(name)
    texts = [None if draw.random() < nulls else draw.randbytes(LENGTHS[name](draw)) for _ in range(5 * FEW_TEXTS)]
    rows = pa.table({"t": pa.array(texts, pa.binary())})
    assert row_checksum(rows) == plain_checksum(rows)
    assert row_checksum(rows.slice(3, 100)) == plain_checksum(rows.slice(3, 100))
    assert row_checksum(rows.cast(pa.schema([("t", pa.large_binary())]))) == plain_checksum(rows)
    gaps = pa.table({"t": pa.chunked_array([pa.Array.from_buffers(pa.binary(), len(texts), _under_nulls(rows["t"].chunk(0)))])})
    assert row_checksum(gaps) == plain_checksum(rows)


def _under_nulls(texts: pa.Array[Any]) -> list[pa.Buffer | None]:
    """The buffers of an array with bytes in the places of its NULLs, as a reader may leave them."""
    bits, _, _ = texts.buffers()
    filled = texts.fill_null(b"\1" * 11)
    return [bits, *filled.buffers()[1:]]


@pytest.mark.parametrize("rows_each", [1, 999, TEXTS_AT_ONCE - 1, TEXTS_AT_ONCE, BLOCK_ROWS, BLOCK_ROWS + 1, 2 * BLOCK_ROWS])
def test_blocks_and_batches_of_any_size_change_nothing(rows_each: int) -> None:
    count = 2 * BLOCK_ROWS + 3 if rows_each > 1 else 300
    numbers = np.random.default_rng(1).integers(0, 1 << 60, count)
    whole = pa.table({"n": numbers, "m": pa.array(numbers, mask=numbers % 3 == 0), "t": pa.array(numbers % 10**9).cast(pa.string())})
    plain = sum(row_checksum(whole.slice(first, 500)) for first in range(0, count, 500)) % MODULUS
    assert row_checksum(whole.combine_chunks()) == plain
    assert row_checksum(pa.Table.from_batches(whole.to_batches(max_chunksize=rows_each))) == plain


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string()])
def test_long_texts_that_repeat_are_hashed_once_each_with_the_same_checksum(kind: pa.DataType) -> None:
    words = [None if number % 7 == 0 else f"word {number % 5} {'x' * 2 * LONG_TEXT}" for number in range(100)]
    rows = pa.table({"t": pa.array(words).cast(kind), "id": range(len(words))})
    assert row_checksum(rows) == plain_checksum(rows.cast(pa.schema([("t", pa.binary()), ("id", pa.int64())])))
    parts = (row_checksum(rows.slice(first, 1)) for first in range(rows.num_rows))
    assert sum(parts) % MODULUS == row_checksum(rows)


@pytest.mark.parametrize("words", [MOST_PLACES - 1, MOST_PLACES, MOST_PLACES + 1, 0xFFFF - 1, 0xFFFF, 0xFFFF + 3])
def test_many_texts_of_any_length_have_the_checksum_of_each_of_them(words: int) -> None:
    """More long texts than are hashed by themselves, up to 0.5 MB: a text hashed alone takes another path."""
    draw = random.Random(words)
    base = draw.randbytes(8 * words + 8)
    texts = [base[number % 8 : number % 8 + 8 * words - number % 11] for number in range(FEW_TEXTS + 1)] + [b"short", None]
    rows = pa.table({"t": pa.array(texts, pa.binary())})
    apart = sum(row_checksum(rows.slice(row, 1)) for row in range(rows.num_rows)) % MODULUS
    assert row_checksum(rows) == apart
    assert row_checksum(rows.slice(0, 1)) == plain_checksum(rows.slice(0, 1))


COUNTS = st.integers(1, 4) | st.integers(FEW_TEXTS, FEW_TEXTS + 8)
LONG_TEXTS = st.sampled_from([FEW_WORDS, MOST_PLACES, 0xFFFF, 0xFFFF]).flatmap(lambda words: st.integers(8 * words - 8, 8 * words + 4_000))
"""Bytes, up to more than the highest number of words by which texts are sorted."""


def check_long_texts(count: int, longest: int, shorter: int) -> None:
    """Few or many texts in one row group, each of them `shorter` than the one before. A text that is hashed alone takes another path."""
    content = random.Random(longest).randbytes(longest + count)
    texts = [content[number : number + max(0, longest - shorter * number)] for number in range(count)]
    rows = pa.table({"t": pa.array([*texts, None], pa.binary())})
    apart = sum(row_checksum(rows.slice(row, 1)) for row in range(rows.num_rows)) % MODULUS
    assert row_checksum(rows) == apart


drawn = settings(max_examples=examples(12), phases=[Phase.generate])
many_texts = given(COUNTS, LONG_TEXTS, st.integers(0, 16))
test_many_texts_of_any_length_are_hashed_as_each_of_them = drawn(many_texts(check_long_texts))


def test_the_draws_find_texts_of_more_words_than_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiering.lake.proof.row_checksum.MOST_PLACES", 1 << 20)
    with pytest.raises(IndexError):
        drawn(many_texts(check_long_texts))()


def test_other_names_of_columns_and_fields_do_not_change_the_checksum_if_the_former_ones_are_given() -> None:
    place = pa.struct([pa.field("city", pa.string()), pa.field("zip", pa.int32())])
    former = pa.schema([pa.field("id", pa.int64()), pa.field("places", pa.list_(place)), pa.field("by_day", pa.map_(pa.string(), place))])
    values = [{"id": 1, "places": [{"city": "a", "zip": 1}, None], "by_day": [("x", {"city": None, "zip": 2})]}, {"id": None}]
    rows = pa.RecordBatch.from_pylist(values, schema=former)
    town = pa.struct([pa.field("town", pa.string()), pa.field("code", pa.int32())])
    present = pa.schema([pa.field("no", pa.int64()), pa.field("at", pa.list_(town)), pa.field("days", pa.map_(pa.string(), town))])
    renamed_values = [{"no": 1, "at": [{"town": "a", "code": 1}, None], "days": [("x", {"town": None, "code": 2})]}, {"no": None}]
    renamed = pa.RecordBatch.from_pylist(renamed_values, schema=present)
    assert row_checksum(renamed, former) == row_checksum(rows)
    assert row_checksum(renamed) != row_checksum(rows)
