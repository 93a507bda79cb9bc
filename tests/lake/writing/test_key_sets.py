"""A set of keys contains exactly its keys, whatever their types and ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.lake.writing import key_sets
from tiering.lake.writing.key_sets import IntegerSet, key_test

INT64 = st.integers(-(2**63), 2**63 - 1)
NEAR = st.integers(-20, 20)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-(2**31), 2**31 - 1) | NEAR,
    pa.int64(): INT64 | NEAR | st.sampled_from([-(2**63), 2**63 - 1]),
    pa.string(): st.text(max_size=3),
    pa.binary(): st.binary(max_size=3),
    pa.decimal128(20, 2): st.decimals(-1000, 1000, places=2),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
}


@given(data=st.data())
def test_a_set_contains_exactly_its_keys(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    row = st.tuples(*(VALUES[kind] for kind in kinds))
    keys = data.draw(st.lists(row, min_size=1, max_size=20))
    others = data.draw(st.lists(row | st.sampled_from(keys), max_size=30))

    contains = key_test([pa.chunked_array([pa.array([key[place] for key in keys], kind)]) for place, kind in enumerate(kinds)])

    assert contains is not None
    arrays = [pa.array([other[place] for other in others], kind) for place, kind in enumerate(kinds)]
    assert contains(arrays).tolist() == [other in set(keys) for other in others]


@pytest.mark.parametrize("spread", [3, 1 << 40])
def test_integers_of_a_small_and_of_a_large_range_are_found(spread: int) -> None:
    random = np.random.default_rng(1)
    values = random.integers(-1000, 1000, 500) * spread
    probes = np.concatenate([values, random.integers(-1500, 1500, 5000) * spread, values + 1])

    assert IntegerSet(values).contains(probes).tolist() == np.isin(probes, values).tolist()


def test_columns_with_too_many_combinations_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_sets, "_MAX_CODES", 8)
    column = pa.chunked_array([pa.array([1, 2, 3])])
    assert key_test([column, column]) is None
