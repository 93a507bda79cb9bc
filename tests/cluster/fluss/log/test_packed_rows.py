"""COMPACTED and INDEXED rows: what a server wrote, any rows of any types, and damaged ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.clusters.fluss_rows import encode_row
from tiering.cluster.fluss.log.packed_rows import PADDING, PackedBytes, RowEncoding, decode_rows

POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])


def decode(types: Sequence[pa.DataType], rows: Sequence[bytes]) -> list[list[Any]]:
    """The columns, each checked as Arrow checks data from outside."""
    lengths = np.array([len(row) for row in rows], np.int64)
    ends = len(PADDING) + np.cumsum(lengths)
    columns = decode_rows(PackedBytes.joined(rows), ends - lengths, ends, types)
    for kind, column in zip(types, columns, strict=True):
        assert column.type == kind
        column.validate(full=True)
    return [_plain(column) for column in columns]


def _plain(column: Any) -> list[Any]:
    """Values with instants as numbers, which Python's own do not hold in all units."""
    return [value.value if isinstance(value, pa.TimestampScalar) else value.as_py() for value in column]


class TestWhatAServerWrote:
    """Values of KV snapshots of Fluss 0.9.1, without their schema id."""

    def test_flat_columns(self) -> None:
        types = [
            *(pa.int32(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary()),
            *(pa.decimal128(9, 2), pa.decimal128(18, 3), pa.decimal128(19, 3), pa.decimal128(38, 5), pa.date32(), pa.int32()),
            *(pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")),
            *(pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
        ]
        row = bytes.fromhex(
            "0000000101fdd4feffffffff0fac020000c03f00000000000002c00d68c3a46c6c6f2077c3b6726c64020001aef6ffffffffffffff01"
            "cee6c3b1bae9a6db0102fa240b01056e0f36a6443de2df79ffffffff0ffc9de30188b183c1cc31aeb683c1cc31aed6d8aaa20888ff36"
            "aeb683c1cc3188ff36aeb683c1cc31aeb683c1cc3188ff36"
        )
        nulls = bytes.fromhex("feff3fc801")

        first, second, third = zip(*decode(types, [row, nulls, row]), strict=True)

        assert (
            first
            == third
            == (
                *(1, True, -3, -300, -1, 300, 1.5, -2.25, "hällo wörld", b"\0\1"),
                *(Decimal("-12.34"), Decimal("123456789012345.678"), Decimal("-1.500"), Decimal("12345678901234567890.12345")),
                *(date(1969, 12, 31), 3_723_004),
                *(1_704_164_645, 1_704_164_645_678, 284_094_245_678_901, 1_704_164_645_678_901_000),
                *(1_704_164_645_678, 1_704_164_645_678_901),
            )
        )
        assert second == (200, *[None] * 21)

    def test_nested_columns(self) -> None:
        types = [pa.int32(), pa.list_(pa.int64()), pa.list_(pa.string()), pa.map_(pa.string(), pa.int64()), POINT, pa.list_(POINT)]
        row = bytes.fromhex(
            "0001200300000002000000010000000000000000000000000000002c01000000000000500500000004000000610000000000008112000000300000000000"
            "000000000000313233343536378708000000480000006c6f6e6720737472696e67206f76657220370000000000003132333435363738341800000002000000"
            "000000006b310000000000826b3200000000008202000000020000000100000000000000000000000000000005000502797930030000000200000004000000"
            "200000000000000000000000010000002800000000010171000000000300000000000000"
        )
        nulls = bytes.fromhex("3a02080000000000000000")

        first, second, third = zip(*decode(types, [row, nulls, row]), strict=True)

        assert (
            first
            == third
            == (
                1,
                [1, None, 300],
                ["a", "long string over 7", None, "1234567", "12345678"],
                [("k1", 1), ("k2", None)],
                {"x": 5, "y": "yy"},
                [{"x": 1, "y": "q"}, None, {"x": None, "y": None}],
            )
        )
        assert second == (2, None, [], None, None, None)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda unscaled: Decimal(f"{unscaled}E-{scale}"))


_FLAT: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    (pa.binary(), st.binary(max_size=20)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    *((pa.decimal128(precision, scale), _decimals(precision, scale)) for precision, scale in ((1, 0), (9, 2), (18, 18), (19, 0), (38, 10))),
    (pa.date32(), st.integers(-700_000, 2_900_000)),
    *((pa.timestamp(unit), st.integers(-(2**bits), 2**bits)) for unit, bits in (("s", 50), ("ms", 60), ("us", 62), ("ns", 62))),
    (pa.timestamp("us", "UTC"), st.integers(-(2**62), 2**62)),
]


def _nested(element: tuple[Any, st.SearchStrategy[Any]]) -> st.SearchStrategy[tuple[Any, st.SearchStrategy[Any]]]:
    kind, values = element
    optional = st.none() | values
    lists = (pa.list_(kind), st.lists(optional, max_size=40))
    structs = (pa.struct([("x", pa.int64()), ("y", kind)]), st.fixed_dictionaries({"x": st.none() | st.integers(0, 300), "y": optional}))
    maps = (pa.map_(pa.string(), kind), st.lists(st.tuples(st.text("ab", max_size=12), optional), max_size=5))
    return st.sampled_from([lists, structs, maps])


_COLUMNS = st.recursive(st.sampled_from(_FLAT), lambda inner: inner.flatmap(_nested), max_leaves=3)


@st.composite
def _tables(draw: st.DrawFn) -> tuple[list[Any], list[list[Any]]]:
    columns = draw(st.lists(_COLUMNS, min_size=1, max_size=20))
    row = st.tuples(*(st.none() | values for _, values in columns))
    return [kind for kind, _ in columns], [list(values) for values in draw(st.lists(row, min_size=1, max_size=8))]


@given(_tables(), st.sampled_from(RowEncoding))
def test_rows_of_any_types_are_decoded(table: tuple[list[Any], list[list[Any]]], encoding: RowEncoding) -> None:
    types, rows = table
    encoded = [encode_row(types, row, encoding) for row in rows]
    ends = np.cumsum([len(PADDING), *map(len, encoded)])

    columns = decode_rows(PackedBytes.joined(encoded), ends[:-1], ends[1:], types, encoding)

    for place, (kind, column) in enumerate(zip(types, columns, strict=True)):
        column.validate(full=True)
        assert column.equals(pa.array([row[place] for row in rows], kind))


@given(_tables(), st.sampled_from(RowEncoding), st.data())
def test_damaged_rows_are_refused_or_decoded_to_something(
    table: tuple[list[Any], list[list[Any]]], encoding: RowEncoding, data: st.DataObject
) -> None:
    types, rows = table
    encoded = bytearray(b"".join(encode_row(types, row, encoding) for row in rows))
    ends = len(PADDING) + np.cumsum([len(encode_row(types, row, encoding)) for row in rows])
    starts = np.array([len(PADDING), *ends[:-1]])
    for place in data.draw(st.lists(st.integers(0, len(encoded) - 1), min_size=1, max_size=4)):
        encoded[place] = data.draw(st.integers(0, 255))
    for cut in data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=2)):
        ends[cut] = data.draw(st.integers(starts[cut], ends[cut]))

    try:
        columns = decode_rows(PackedBytes.joined([bytes(encoded)]), starts, ends, types, encoding)
    except ValueError:
        return
    assert {len(column) for column in columns} == {len(rows)}


@pytest.mark.parametrize("number", [0, 127, 128, 2**28 - 1, 2**28, 2**56 - 1, 2**56, 2**62, 2**63 - 1, -1, -(2**63)])
def test_numbers_of_every_length(number: int) -> None:
    assert decode([pa.int64(), pa.int64()], [encode_row([pa.int64(), pa.int64()], [number, 5])]) == [[number], [5]]


def test_a_number_of_more_than_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        decode([pa.int64()], [b"\0" + b"\xff" * 9 + b"\x02"])


def test_rows_that_are_longer_than_their_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="longer or shorter"):
        decode([pa.int8()], [b"\0\1\2"])


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(ValueError, match="UTF8"):
        decode([pa.string()], [b"\0\1\xff"])
