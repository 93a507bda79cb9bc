"""Hypothesis strategies: columns of every type that a table may have, and values that are odd in every way a type allows."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

FARTHEST_US = 2**63 - 1
FARTHEST_DAY = 2**31 - 1


@dataclass(frozen=True)
class Kind:
    """A type and its values, dates and times as the numbers that are stored."""

    type: pa.DataType
    values: st.SearchStrategy[Any]


def _whole(bits: int) -> st.SearchStrategy[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.sampled_from([low, -1, 0, 1, high]) | st.integers(low, high)


def _around(farthest: int) -> st.SearchStrategy[int]:
    return st.sampled_from([-farthest - 1, -farthest, 0, -1, farthest]) | st.integers(-farthest - 1, farthest)


def _decimal(precision: int, scale: int) -> Kind:
    largest = 10**precision - 1
    numbers = st.sampled_from([-largest, -1, 0, 1, largest]) | st.integers(-largest, largest)
    return Kind(pa.decimal128(precision, scale), numbers.map(lambda number: Decimal(f"{number}E-{scale}")))


_ODD_TEXTS = ["", " ", "\x00", "'", "\ud7ff" * 20, "\U0010ffff" * 20, "\ue000", "z" * 5_000, "grün", "NULL", "a\nb"]
_TEXTS = st.sampled_from(_ODD_TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_BYTES = st.sampled_from([b"", b"\x00", b"\xff" * 20, b"\xff" * 5_000]) | st.binary(max_size=30)

KEYS: list[Kind] = [
    Kind(pa.int8(), _whole(8)),
    Kind(pa.int16(), _whole(16)),
    Kind(pa.int32(), _whole(32)),
    Kind(pa.int64(), _whole(64)),
    *(_decimal(precision, scale) for precision, scale in ((1, 0), (5, 5), (9, 2), (10, 0), (18, 6), (19, 0), (28, 3), (38, 0), (38, 38))),
    Kind(pa.date32(), _around(FARTHEST_DAY)),
    Kind(pa.timestamp("us"), _around(FARTHEST_US)),
    Kind(pa.timestamp("us", "UTC"), _around(FARTHEST_US)),
    Kind(pa.string(), _TEXTS),
    Kind(pa.binary(), _BYTES),
]
_FLOATS = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 5e-324]
FLAT: list[Kind] = [
    *KEYS,
    Kind(pa.bool_(), st.booleans()),
    Kind(pa.float32(), st.sampled_from(_FLOATS) | st.floats(width=32)),
    Kind(pa.float64(), st.sampled_from(_FLOATS) | st.floats()),
]


def kinds(depth: int = 2) -> st.SearchStrategy[Kind]:
    """Types of columns, nested up to `depth`."""
    flat = st.sampled_from(FLAT)
    if depth == 0:
        return flat
    inner = kinds(depth - 1)
    part = st.tuples(inner, st.booleans())
    return flat | part.map(_list) | st.lists(part, min_size=1, max_size=3).map(_struct) | st.tuples(st.sampled_from(KEYS), part).map(_map)


def nullable(kind: Kind) -> st.SearchStrategy[Any]:
    """Values of a nullable column."""
    return st.none() | kind.values


Part = tuple[Kind, bool]
"""A kind of values within a nested one, and whether they may be NULL."""


def _values(part: Part) -> st.SearchStrategy[Any]:
    kind, is_nullable = part
    return nullable(kind) if is_nullable else kind.values


def _list(element: Part) -> Kind:
    return Kind(pa.list_(pa.field("element", element[0].type, element[1])), st.lists(_values(element), max_size=3))


def _struct(fields: list[Part]) -> Kind:
    named = {f"f{number}": part for number, part in enumerate(fields)}
    values = st.fixed_dictionaries({name: _values(part) for name, part in named.items()})
    return Kind(pa.struct([pa.field(name, kind.type, is_nullable) for name, (kind, is_nullable) in named.items()]), values)


def _map(pair: tuple[Kind, Part]) -> Kind:
    key, value = pair
    values = st.dictionaries(key.values, _values(value), max_size=3).map(lambda entries: list(entries.items()))
    return Kind(pa.map_(key.type, pa.field("value", value[0].type, value[1])), values)
