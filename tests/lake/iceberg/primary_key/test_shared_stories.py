"""Any story of a clean table whose buckets share partitions, with compactions by a user: after each round the lake equals the table."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.clusters.primary_key_table import TwoKeysTable
from support.depth import examples
from support.lakes.lake_kit import LakeKit
from tiering.lake.iceberg.primary_key import bucket_files as rewrite_rule

names = count()
EXAMPLES = examples(4)
"""Number of stories, each of which takes most of a second; a soak finds more."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> LakeKit:
    return LakeKit(Path(tmp_path_factory.mktemp("stories")))


KEYS = st.lists(st.integers(0, 24), min_size=1, max_size=12)
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("tier"), st.just([])),
    st.tuples(st.just("compact"), st.just([])),
)


@settings(max_examples=EXAMPLES)
@given(
    loaded=st.booleans(),
    is_partitioned=st.booleans(),
    many_deletes=st.integers(1, 3),
    dead_share=st.sampled_from([0.05, 0.3, 2.0]),
    steps=st.lists(STEPS, min_size=4, max_size=16),
)
def test_after_every_round_the_lake_equals_the_table(
    shared: LakeKit, loaded: bool, is_partitioned: bool, many_deletes: int, dead_share: float, steps: list[Any]
) -> None:
    table = TwoKeysTable(shared, f"story{next(names)}", 3, is_partitioned=is_partitioned)
    if loaded:
        table.put(*table.rows(60))
        table.tier("load")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewrite_rule, "MANY_DELETE_FILES", many_deletes)
        patch.setattr(rewrite_rule, "DEAD_SHARE", dead_share)
        for number, (step, ids) in enumerate([*steps, ("tier", [])]):
            rows = [table.rows(1, start=value, name=f"step {number}")[0] for value in ids]
            if step == "put":
                table.put(*rows)
            elif step == "delete":
                table.delete(*rows)
            elif step == "compact" and shared.lake.view(table.info.path) is not None:
                table.compact()
                assert table.in_lake() == table.expected()
            elif table.logs:
                table.tier(f"r{number}")
                assert table.in_lake() == table.expected()
