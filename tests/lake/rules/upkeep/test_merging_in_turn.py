"""Which buckets a round merges first, and for how long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiering.lake.rules.upkeep.small_files import in_turn, merging_ms
from tiering.model.tables import BucketKey


@given(st.integers(0, 70), st.text())
def test_all_buckets_stay_in_their_order_from_another_one_on(count: int, round_id: str) -> None:
    buckets = {BucketKey(None, number): str(number) for number in range(count)}
    turned = in_turn(buckets, round_id)
    assert turned == buckets
    names = list(turned.values())
    assert "".join(map(str, names)) in "".join(map(str, [*buckets.values(), *buckets.values()]))


def test_each_bucket_has_its_turn() -> None:
    buckets = {BucketKey(None, number): None for number in range(8)}
    assert {next(iter(in_turn(buckets, f"round-{number}"))) for number in range(200)} == set(buckets)


def test_merging_begins_no_further_bucket_after_a_twentieth_of_the_freshness() -> None:
    assert merging_ms(10_000) == 500
