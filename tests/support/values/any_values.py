"""Any value of any type that a table may have, and what a value is bit by bit: for round trips through what keeps rows."""

from __future__ import annotations

import decimal
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

DAYS = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([-719_163, -719_162, 2_932_896, 2_932_897])
MICROSECONDS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1, -62_135_596_800_000_000, 253_402_300_800_000_000])


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@st.composite
def _decimals(draw: st.DrawFn) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    largest = 10**precision - 1
    context = decimal.Context(prec=40)
    return pa.decimal128(precision, scale), st.integers(-largest, largest).map(lambda n: context.scaleb(decimal.Decimal(n), -scale))


def flat(kind: pa.DataType, values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    return st.just((kind, values))


NO_TIMES = st.one_of(
    flat(pa.bool_(), st.booleans()),
    *(flat(kind, _integers(kind.bit_width)) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    flat(pa.float32(), st.floats(width=32)),
    flat(pa.float64(), st.floats()),
    flat(pa.string(), st.text(max_size=20)),
    flat(pa.binary(), st.binary(max_size=20)),
    flat(pa.date32(), DAYS),
    _decimals(),
)
FLAT = NO_TIMES | flat(pa.timestamp("us"), MICROSECONDS) | flat(pa.timestamp("us", "UTC"), MICROSECONDS)
"""A type and its values; dates and timestamps as integers, for Python has not all of them."""


def _nested(inner: st.SearchStrategy[Any], keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = inner.map(lambda of: (pa.list_(pa.field("element", of[0])), st.lists(of[1] | st.none(), max_size=3)))
    structs = st.lists(inner, min_size=1, max_size=3).map(
        lambda fields: (
            pa.struct([(f"f{number}", kind) for number, (kind, _) in enumerate(fields)]),
            st.fixed_dictionaries({f"f{number}": values | st.none() for number, (_, values) in enumerate(fields)}),
        )
    )
    maps = st.tuples(keys, inner).map(
        lambda pair: (pa.map_(pair[0][0], pair[1][0]), st.lists(st.tuples(pair[0][1], pair[1][1] | st.none()), max_size=3))
    )
    return lists | structs | maps


def nested(flat_types: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Types and values of these flat types, and of lists, structs and maps of them."""
    return st.recursive(flat_types, lambda inner: _nested(inner, flat_types), max_leaves=4)


TYPES = nested(FLAT)


@st.composite
def columns(draw: st.DrawFn, rows: int, types: st.SearchStrategy[Any] = TYPES) -> pa.Array[Any]:
    """A column of `rows` values or NULLs, also a slice of a longer one. Maps may have a key several times."""
    kind, values = draw(types)
    before = draw(st.integers(0, 2))
    drawn = draw(st.lists(values | st.none(), min_size=rows + before, max_size=rows + before))
    return build(kind, drawn).slice(before)


def build(kind: pa.DataType, values: list[Any]) -> pa.Array[Any]:
    """An array of those values, dates and timestamps given as integers at every depth."""
    mask = np.array([value is None for value in values], dtype=bool)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        width = pa.int32() if pa.types.is_date(kind) else pa.int64()
        return pa.array(values, width).view(kind)
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        children = [build(field.type, [None if value is None else value[field.name] for value in values]) for field in fields]
        return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(mask))
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        lengths = [0 if value is None else len(value) for value in values]
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        inside = [element for value in values if value is not None for element in value]
        if pa.types.is_list(kind):
            return pa.ListArray.from_arrays(offsets, build(kind.value_type, inside), type=kind, mask=pa.array(mask))
        keys, items = build(kind.key_type, [key for key, _ in inside]), build(kind.item_type, [item for _, item in inside])
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=pa.array(mask))
    return pa.array(values, kind)


def bits(column: Any, one_nan: bool = False) -> list[Any]:
    """Each value as something that is equal for the same bits only: -0.0 is not 0.0, and a NaN is itself. `one_nan`: all NaNs are equal."""
    kind = column.type
    valid = column.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        children = [bits(column.field(index), one_nan) for index in range(kind.num_fields)]
        values = [tuple(child[row] for child in children) for row in range(len(column))]
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        offsets = column.offsets.to_pylist()
        inside = (
            list(zip(bits(column.keys, one_nan), bits(column.items, one_nan), strict=True))
            if pa.types.is_map(kind)
            else bits(column.values, one_nan)
        )
        values = [inside[start:stop] for start, stop in itertools.pairwise(offsets)]
    elif pa.types.is_floating(kind):
        width = pa.uint32() if kind.bit_width == 32 else pa.uint64()
        floats = pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), kind), column) if one_nan else column
        values = floats.view(width).to_pylist()
    elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        values = column.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
    else:
        values = column.to_pylist()
    return [value if present else None for value, present in zip(values, valid, strict=True)]
