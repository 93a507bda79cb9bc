"""Sizes as people write them in `table.datalake.round.bytes`, and the one error for all others."""

from __future__ import annotations

import pytest

from tiering.errors import InvalidArgument
from tiering.round_bytes import ROUND_BYTES, parse_round_bytes, round_bytes_of


@pytest.mark.parametrize(
    ("text", "size"),
    [("64 mb", 64 << 20), ("64mb", 64 << 20), ("64 MiB", 64 << 20), ("1.5 GB", 3 << 29), ("1g", 1 << 30), ("500000", 500_000), ("7 b", 7)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_round_bytes(text) == size


def test_without_it_only_the_freshness_counts() -> None:
    assert round_bytes_of({}) is round_bytes_of({ROUND_BYTES: "none"}) is None


@pytest.mark.parametrize("text", ["", "much", "0", "0.1 b", "-1", "5 min", "1e9", "9999999999999999999", "1 mb 2", "٣ mb"])
def test_what_is_no_size_is_one_clear_error(text: str) -> None:
    with pytest.raises(InvalidArgument, match=ROUND_BYTES) as refused:
        parse_round_bytes(text)
    assert "'64 mb'" in refused.value.hint
