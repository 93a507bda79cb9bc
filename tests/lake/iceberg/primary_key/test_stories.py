"""Any story of a primary-key table's rounds, stopped early too: after each of them the lake equals the table."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.clusters.primary_key_table import PRIMARY_KEY_SCHEMA, PrimaryKeyTable, primary_key_info
from support.depth import examples
from support.lakes.lake_kit import LakeKit
from tiering.lake.writing import keys, spool
from tiering.model.tables import BucketKey, ChangeType

names = count()
EXAMPLES = examples(5)
"""Number of stories, each of which takes most of a second; a soak finds more."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> LakeKit:
    return LakeKit(Path(tmp_path_factory.mktemp("stories")))


KEYS = st.integers(0, 24)
STEPS = st.one_of(
    st.tuples(st.just("put"), st.lists(KEYS, min_size=1, max_size=12), st.sampled_from([None, "a", "b"])),
    st.tuples(st.just("delete"), st.lists(KEYS, min_size=1, max_size=8), st.none()),
    st.tuples(st.just("tier"), st.just([]), st.none()),
    st.tuples(st.just("stop early"), st.lists(st.integers(1, 9), min_size=2, max_size=2), st.none()),
)


@settings(max_examples=EXAMPLES)
@given(loaded=st.booleans(), many=st.booleans(), steps=st.lists(STEPS, min_size=3, max_size=14))
def test_after_every_round_the_lake_equals_the_table(shared: LakeKit, loaded: bool, many: bool, steps: list[Any]) -> None:
    table = PrimaryKeyTable(shared, primary_key_info(f"story{next(names)}", PRIMARY_KEY_SCHEMA))
    if loaded:  # so that changes are few, and nothing is rewritten for a while
        table.put(*table.rows(300))
        table.tier("load")
    with pytest.MonkeyPatch.context() as patch:
        if many:
            patch.setattr(keys, "MANY_KEYS", 3)
            patch.setattr(spool, "MEMORY_BYTES", 300)
        for number, (step, values, text) in enumerate([*steps, ("tier", [], None)]):
            rows = [{"id": value, "name": text, "small": number} for value in values]
            if step == "put":
                table.put(*rows)
            elif step == "delete":
                table.delete(*rows)
            elif table.logs:
                table.tier(f"r{number}", None if step == "tier" else early_stops(table, values))
                table.check()


def early_stops(table: PrimaryKeyTable, counts: list[int]) -> dict[BucketKey, int]:
    """A few records of each bucket beyond the marker, never between -U and +U."""
    view = table.kit.lake.ensure_table(table.info)
    stops = {}
    for (bucket, log), more in zip(sorted(table.logs.items(), key=lambda entry: entry[0].sort_key()), counts, strict=False):
        done = view.marker.buckets[bucket].tiered if view.marker is not None and bucket in view.marker.buckets else 0
        stop = min(len(log), done + more)
        stops[bucket] = stop + 1 if stop and log[stop - 1].kind is ChangeType.UPDATE_BEFORE else stop
    return stops
